//go:build unix

package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/store/pebblestore"
)

var kills = flag.Int("kills", defaultKills, "how often TestKill kills the gateway under load")

// CR-1 and the promise, under kill -9: whenever the gateway dies, nothing runs twice, what was answered is answered again
// byte for byte, and what was in flight is held, at once and for good.
//
// The moments are random and the system is real, so that no run is like another. A run in which too few kills hit
// an operation, or too few retries met another attempt, proves nothing and fails.
func TestKill(t *testing.T) {
	t.Parallel()
	if *kills < 1 {
		t.Fatalf("-kills=%d: want at least 1", *kills)
	}
	k := newKillLab(t)
	for range *kills {
		k.liveAndDie(t)
	}
	k.verify(t) // as the kill left it, with what was in flight
	k.start(t).ready(t)
	k.settle(t)
	k.tell(t)

	stands := k.wantList(t)
	k.kill(t)
	if got := k.verify(t); got.States[retrysafe.Completed] != stands["completed"] || got.States[retrysafe.Unknown] != stands["unknown"] {
		t.Errorf("the folder holds %v, want what the admin listener listed: %v", got.States, stands)
	}
	k.start(t).ready(t)
	k.callers.askAll(t.Context(), k.past.settled)
	k.past.check(t)
	k.wantList(t)
	k.resolve(t)
}

// A killLab is a gateway that lives and dies in one folder, at one address, between a crowd and its upstream.
type killLab struct {
	upstream  *counter
	past      *chronicle
	callers   *crowd
	life      atomic.Int64 // its number; it changes only while no gateway runs
	died      []time.Time  // life n at n-1
	restarts  []time.Duration
	dir       string
	public    string // addresses
	operators string
	gateway   *mortal // that of the life
}

func newKillLab(t *testing.T) *killLab {
	t.Helper()
	k := &killLab{past: newChronicle(), dir: filepath.Join(t.TempDir(), "keys"), public: steadyAddress(t, 10_000), operators: steadyAddress(t, 21_000)}
	k.upstream = startCounter(t, k.past)
	k.callers = startCrowd(t, "http://"+k.public, &k.life, k.past)
	return k
}

// steadyAddress is a free one outside of the ports that systems hand out by themselves: nobody else listens there
// while the gateway is down. It lies less than 11,000 above from.
func steadyAddress(t *testing.T, from int) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+rand.IntN(11_000)))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// A mortal is a gateway process.
type mortal struct {
	*process
	began time.Time
	lab   *killLab
}

// start begins the next life.
func (k *killLab) start(t *testing.T) *mortal {
	t.Helper()
	cmd := exec.Command("retrysafe", "gateway", "--upstream", fmt.Sprintf("%s/%d", k.upstream.URL, k.life.Add(1)),
		"--listen", k.public, "--admin", k.operators, "--store", "pebble:"+k.dir, "--on-lease-end", "hold", "--lease", "10m")
	cmd.Env = append(cmd.Environ(), "RETRYSAFE_ADMIN_TOKEN="+token)
	began := time.Now()
	k.gateway = &mortal{startCommand(t, cmd), began, k}
	return k.gateway
}

// ready returns when the gateway listens.
func (m *mortal) ready(t *testing.T) *mortal {
	t.Helper()
	m.awaitReady(t)
	m.lab.restarts = append(m.lab.restarts, time.Since(m.began))
	return m
}

// kill ends the life, and returns when no process is left.
func (k *killLab) kill(t *testing.T) {
	t.Helper()
	k.died = append(k.died, time.Now())
	if err := k.gateway.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("kill the gateway: %v; it said:\n%s", err, k.gateway.stderr)
	}
	select {
	case status := <-k.gateway.status:
		if status != -1 {
			t.Fatalf("the gateway ended by itself, with status %d; it said:\n%s", status, k.gateway.stderr)
		}
	case <-time.After(deadline):
		t.Fatal("the gateway was killed and lives")
	}
}

// liveAndDie is one life under load, which ends at a random moment: one in six while it begins.
func (k *killLab) liveAndDie(t *testing.T) {
	t.Helper()
	m := k.start(t)
	moment := 5*time.Millisecond + rand.N(100*time.Millisecond)
	if rand.IntN(6) == 0 {
		moment = rand.N(2 * median(k.restarts))
	} else {
		m.ready(t)
		k.wantHeld(t)
	}
	<-time.After(moment)
	k.kill(t)
	k.callers.gate.Lock() // all attempts have ended
	defer k.callers.gate.Unlock()
	k.past.check(t)
	if t.Failed() {
		t.FailNow()
	}
}

// median is the middle one; with none, a guess.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 50 * time.Millisecond
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// settle waits until the callers are told what became of their last keys.
func (k *killLab) settle(t *testing.T) {
	t.Helper()
	close(k.callers.stop)
	told := make(chan struct{})
	go func() {
		k.callers.all.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(settling + deadline):
		t.Fatal("the callers do not come to an end")
	}
	k.past.check(t)
}

// keys lists the keys that stand, by what they are, at the admin listener: those of a state, or all.
func (k *killLab) keys(t *testing.T, of retrysafe.State) map[string]string {
	t.Helper()
	all := map[string]string{}
	client := admin.Client{URL: k.gateway.admin, Token: token}
	for f := (retrysafe.Filter{State: of, Limit: 1000}); ; {
		page, err := client.List(t.Context(), f)
		if err != nil {
			t.Fatalf("list keys: %v; the gateway said:\n%s", err, k.gateway.stderr)
		}
		for _, key := range page.Keys {
			if all[key.Key] != "" || key.Unreadable {
				t.Errorf("key %s is listed twice, or cannot be read: %+v", key.Key, key)
			}
			all[key.Key] = key.State
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

// wantHeld checks, while the load goes on, that what was told to be unknown is held in the next life too, and that
// nothing is that was answered.
func (k *killLab) wantHeld(t *testing.T) {
	t.Helper()
	want := k.past.keys(toldUnknown)
	held := k.keys(t, retrysafe.Unknown)
	for _, key := range want {
		if held[key] != "unknown" {
			t.Errorf("key %s was told to be unknown; after a restart it is listed as %q", key, held[key])
		}
	}
	for _, key := range k.past.keys(toldDone) {
		if held[key] != "" {
			t.Errorf("key %s was answered; after a restart it is listed as %q", key, held[key])
		}
	}
}

// wantList checks, when all callers are told, that every key is listed as they were told, and no other. It returns
// how many are listed in each state.
func (k *killLab) wantList(t *testing.T) map[string]int {
	t.Helper()
	listed, counts := k.keys(t, retrysafe.Absent), map[string]int{}
	for _, state := range listed {
		counts[state]++
	}
	known := 0
	for fate, state := range map[told]string{toldDone: "completed", toldUnknown: "unknown"} {
		keys := k.past.keys(fate)
		known += len(keys)
		for _, key := range keys {
			if listed[key] != state {
				t.Errorf("key %s is listed as %q, want %q", key, listed[key], state)
			}
		}
	}
	if known != len(listed) {
		t.Errorf("%d keys are listed, %v, want the %d that callers were told of", len(listed), counts, known)
	}
	return counts
}

// verify reads the folder of the dead.
func (k *killLab) verify(t *testing.T) pebblestore.Report {
	t.Helper()
	report, err := pebblestore.Verify(t.Context(), k.dir)
	if err != nil || report.Wrong > 0 {
		t.Errorf("verify the folder: %v, %q", err, report.Problems)
	}
	return report
}

// tell prints what the run was worth, and fails one that was worth nothing.
func (k *killLab) tell(t *testing.T) {
	t.Helper()
	w := k.past.worth(k.died)
	struck, met := 100*float64(len(w.struck))/float64(len(k.died)), 100*float64(w.overlapped)/float64(max(1, w.retries))
	t.Logf("%d kills, %.0f %% of them between effect and record of a key, %d between record and answer", len(k.died), struck, len(w.cut))
	t.Logf("%d requests reached a gateway; %d were retries of a key not settled yet, %.0f %% of which met another attempt", w.requests, w.retries, met)
	t.Logf("%d keys: %d answered, %d unknown, of which %d had an effect; %d effects", w.fates[toldDone]+w.fates[toldUnknown], w.fates[toldDone], w.fates[toldUnknown], w.lost, w.effects)
	t.Logf("restart: median %v, at most %v", median(k.restarts).Round(time.Millisecond), slices.Max(k.restarts).Round(time.Millisecond))
	if struck < 5 || met < 10 {
		t.Error("void: want at least 5 % of the kills between effect and record, and 10 % of the retries to meet another attempt")
	}
}

// resolve has an operator decide some of the unknown keys, by what the upstream has: it happened, or it did not.
// What was decided stands after one more kill.
func (k *killLab) resolve(t *testing.T) {
	t.Helper()
	decided := map[string]attempt{} // as it is to be told from then on
	for _, key := range k.past.keys(toldUnknown) {
		if len(decided) == 20 {
			break
		}
		if len(k.past.story(key).effects) == 0 {
			k.gateway.key(t, "resolve", "--key", key, "--release", "--by", "a", "--reason", "b").wantOut(t, `^state +free$`)
			k.callers.settle(t.Context(), key)
			decided[key] = attempt{told: toldReplay, answer: k.lastAnswer(t, key, toldDone)}
			continue
		}
		k.gateway.keyWith(t, "zq-body "+key, "resolve", "--key", key, "--complete", "--by", "a", "--reason", "b", "--status", "201",
			"--header", "Location: /charges/x", "--body", "-").wantOut(t, `^state +completed$`)
		decided[key] = attempt{told: toldReplay, answer: answer{201, map[string][]string{"Location": {"/charges/x"}, "Cache-Control": {"no-store"}}, "zq-body " + key}.text()}
	}
	if len(decided) == 0 {
		t.Error("no key is unknown: nothing was decided")
	}
	k.kill(t)
	k.start(t).ready(t)
	for key, want := range decided {
		k.callers.settle(t.Context(), key)
		if got := k.lastAnswer(t, key, want.told); got != want.answer {
			t.Errorf("key %s was decided; it is answered %q, want %q", key, got, want.answer)
		}
		if n := len(k.past.story(key).effects); n != 1 {
			t.Errorf("key %s was decided, and has %d effects, want 1", key, n)
		}
	}
	t.Logf("%d unknown keys were decided", len(decided))
}

// lastAnswer is what the last attempt under key was answered, which must have been told so.
func (k *killLab) lastAnswer(t *testing.T, key string, want told) string {
	t.Helper()
	s := k.past.story(key)
	a := s.attempts[len(s.attempts)-1]
	if a.told != want {
		t.Errorf("key %s was decided: it was told %q, want %q: %s", key, a.told, want, strings.TrimSpace(a.answer))
	}
	return a.answer
}
