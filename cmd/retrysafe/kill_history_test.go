//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the callers and the upstream of TestKill saw, key by key, and the rules that it must obey. A life is that of
// one gateway process, numbered from 1.

// A told is what one attempt was told.
type told string

const (
	toldNothing  told = "nothing" // refused, or cut off
	toldLater    told = "come again"
	toldInFlight told = "in flight"
	toldDone     told = "done" // as the first is told
	toldReplay   told = "done, replayed"
	toldUnknown  told = "outcome unknown"
	toldOther    told = "what nobody should be told"
)

// settles tells whether a caller stops asking.
func (t told) settles() bool { return t != toldNothing && t != toldLater && t != toldInFlight }

// An attempt is one sending of a key.
type attempt struct {
	life       int // that its connection led to; 0: none
	begin, end time.Time
	told       told
	answer     string // of toldDone and toldReplay; of toldOther for those who look into it
}

// during tells whether two attempts were under way at once.
func (a attempt) during(b attempt) bool { return a.begin.Before(b.end) && b.begin.Before(a.end) }

// An effect is what the upstream did under a key.
type effect struct {
	life   int // that sent the request
	at     time.Time
	answer string
}

// A story is all that happened under one key.
type story struct {
	attempts []attempt // in the order in which they ended
	effects  []effect
	twisted  bool // the upstream got another body than the caller sent
}

// any tells whether some attempt was told one of these.
func (s *story) any(these ...told) bool {
	return slices.ContainsFunc(s.attempts, func(a attempt) bool { return slices.Contains(these, a.told) })
}

// fate is what the callers of the key know in the end: toldDone, toldUnknown or toldNothing.
func (s *story) fate() told {
	switch {
	case s.any(toldDone, toldReplay):
		return toldDone
	case s.any(toldUnknown):
		return toldUnknown
	}
	return toldNothing
}

// flaw says which rule the story breaks, "" for none. All attempts that began must have ended.
func (s *story) flaw() string {
	switch done := s.any(toldDone, toldReplay); {
	case s.twisted:
		return "the upstream got another request than was sent"
	case len(s.effects) > 1:
		return "it ran twice"
	case done && len(s.effects) == 0:
		return "it was answered as done, and nothing ran"
	case done && s.any(toldUnknown):
		return "it was answered, and told to be unknown"
	}
	firsts := 0
	for i, a := range s.attempts {
		if flaw := s.flawOf(i, a); flaw != "" {
			return flaw
		}
		if a.told == toldDone {
			firsts++
		}
	}
	if firsts > 1 {
		return "two attempts got the answer of the first"
	}
	return ""
}

func (s *story) flawOf(i int, a attempt) string {
	other := func(is func(attempt) bool) bool {
		return slices.ContainsFunc(slices.Concat(s.attempts[:i], s.attempts[i+1:]), is)
	}
	switch a.told {
	case toldOther:
		return "it was told what nobody should be told: " + a.answer
	case toldDone, toldReplay:
		if a.answer != s.effects[0].answer {
			return "it got another answer than the upstream gave"
		}
		if a.told == toldDone && a.life != s.effects[0].life {
			return "it got the answer of the first from a gateway that did not send it"
		}
	case toldInFlight: // an owner that died must have been told as unknown, at once
		owns := []told{toldNothing, toldLater, toldDone, toldOther}
		if !other(func(o attempt) bool {
			return o.life == a.life && o.begin.Before(a.end) && slices.Contains(owns, o.told)
		}) {
			return "it was told to be in flight, and nobody was on it"
		}
		if len(s.effects) > 0 && s.effects[0].life < a.life {
			return "it was told to be in flight after its gateway had died"
		}
	case toldUnknown:
		if !other(func(o attempt) bool { return o.life > 0 && o.life < a.life }) {
			return "it was told to be unknown, and no gateway had died on it"
		}
	}
	return ""
}

// overlaps counts the retries before the key was settled that reached a gateway, and those of them that met another
// attempt on its way.
func (s *story) overlaps() (retries, overlapped int) {
	sorted := slices.SortedFunc(slices.Values(s.attempts), func(a, b attempt) int { return a.begin.Compare(b.begin) })
	settled := slices.IndexFunc(s.attempts, func(a attempt) bool { return a.told.settles() })
	for i, a := range sorted {
		if i == 0 || a.life == 0 || settled >= 0 && a.begin.After(s.attempts[settled].end) {
			continue
		}
		retries++
		met := func(o attempt) bool { return o.life == a.life && o.during(a) }
		if a.told == toldInFlight || slices.ContainsFunc(slices.Concat(sorted[:i], sorted[i+1:]), met) {
			overlapped++
		}
	}
	return retries, overlapped
}

// A chronicle holds the stories of all keys.
type chronicle struct {
	mu      sync.Mutex
	stories map[string]*story
	settled []string        // keys, in the order in which they were
	fresh   map[string]bool // keys whose stories went on since the last check
}

func newChronicle() *chronicle {
	return &chronicle{stories: map[string]*story{}, fresh: map[string]bool{}}
}

// of is the story of a key, which goes on. It is called with mu held.
func (c *chronicle) of(key string) *story {
	s := c.stories[key]
	if s == nil {
		s = &story{}
		c.stories[key] = s
	}
	c.fresh[key] = true
	return s
}

func (c *chronicle) attempted(key string, a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(key)
	if len(s.effects) > 0 && s.effects[0].answer == a.answer {
		a.answer = s.effects[0].answer // one copy of what is equal
	}
	if a.told.settles() && s.fate() == toldNothing {
		c.settled = append(c.settled, key)
	}
	s.attempts = append(s.attempts, a)
}

func (c *chronicle) happened(key string, e effect, twisted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(key)
	s.effects = append(s.effects, e)
	s.twisted = s.twisted || twisted
}

// check reports every rule that a story broke which went on since the last check.
func (c *chronicle) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.fresh {
		if flaw := c.stories[key].flaw(); flaw != "" {
			t.Errorf("key %s: %s:%s", key, flaw, c.stories[key])
		}
	}
	clear(c.fresh)
}

// String tells the story in the order of time, without the attempts that were refused.
func (s *story) String() string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	for i, a := range s.attempts {
		if a.life > 0 {
			add(a.begin, "life %d: attempt %d begins", a.life, i)
			add(a.end, "life %d: attempt %d was told %s %.40q", a.life, i, a.told, a.answer)
		}
	}
	for _, e := range s.effects {
		add(e.at, "life %d: effect %.40q", e.life, e.answer)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "\n%9.3f ms %s", float64(l.at.Sub(lines[0].at).Microseconds())/1000, l.text)
	}
	return b.String()
}

// story is that of a key, as far as it has come.
func (c *chronicle) story(key string) story {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stories[key]
	return story{slices.Clone(s.attempts), slices.Clone(s.effects), s.twisted}
}

// keys returns the keys of that fate.
func (c *chronicle) keys(fate told) (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.stories {
		if s.fate() == fate {
			keys = append(keys, key)
		}
	}
	return keys
}

// A worth says how hard a run was.
type worth struct {
	requests            int // that reached a gateway
	retries, overlapped int
	effects             int
	lost                int // effects whose answers nobody was told
	fates               map[told]int
	struck, cut         map[int]bool // lives that ended between effect and record of some key, between record and answer
}

// worth looks back on lives that ended at these moments.
func (c *chronicle) worth(died []time.Time) worth {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := worth{fates: map[told]int{}, struck: map[int]bool{}, cut: map[int]bool{}}
	for _, s := range c.stories {
		w.fates[s.fate()]++
		retries, overlapped := s.overlaps()
		w.retries, w.overlapped, w.effects = w.retries+retries, w.overlapped+overlapped, w.effects+len(s.effects)
		for _, a := range s.attempts {
			if a.life > 0 {
				w.requests++
			}
		}
		if s.fate() == toldUnknown {
			w.lost += len(s.effects)
		}
		if len(s.effects) == 1 && s.effects[0].life <= len(died) {
			w.hit(s, died[s.effects[0].life-1])
		}
	}
	return w
}

// hit takes note of what the kill did to a key that ran in the life which ended with it.
func (w *worth) hit(s *story, died time.Time) {
	e := s.effects[0]
	cut := func(a attempt) bool {
		return a.life == e.life && a.told == toldNothing && a.begin.Before(e.at) && !a.end.Before(died)
	}
	switch {
	case s.fate() == toldUnknown && e.at.Before(died):
		w.struck[e.life] = true
	case s.fate() == toldDone && !s.any(toldDone) && slices.ContainsFunc(s.attempts, cut):
		w.cut[e.life] = true
	}
}
