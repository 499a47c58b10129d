package idemhttp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Options are what a Middleware does. Nil, and the zero value of each field, is the default.
type Options struct {
	Preset      Preset    // the dialect that the API speaks. Defaults to IETF
	Key         KeySource // where a request carries its key. Defaults to the Idempotency-Key header
	Required    bool      // a guarded request without a key is refused, with 400. Defaults to passing it on unguarded
	Methods     []string  // guarded. Defaults to POST and PATCH; of the others only PUT and DELETE may be added
	MaxKey      int       // bytes of a key. Defaults to 255
	MaxBody     int64     // bytes of a guarded request's body: a larger one is refused with 413. Defaults to 10 MiB
	MaxBodies   int64     // bytes of all guarded bodies held at once: beyond, 503 and nothing runs. Defaults to 256 MiB, or to MaxBody if that is more
	Bodies      *Bodies   // takes the place of MaxBodies, to share one bound with other Middlewares. Defaults to one of its own
	MaxResponse int64     // bytes of an answer: a larger one is passed on, and not kept. Defaults to 1 MiB

	Fingerprint FingerprintFunc // by which a reused key is told from a retry. Defaults to RawFingerprint

	// Headers of an answer are kept if they are listed here or in DefaultReplayHeaders; never those that
	// belong to one exchange, like Set-Cookie: New refuses them.
	ReplayHeaders []string

	// Outcomes say what answers of a status mean, against what the layer thinks of them: Free (nothing happened: it
	// releases the key), Completed (kept and replayed) or UnknownAnswered (kept, and nobody knows).
	Outcomes map[int]retrysafe.State

	DropAnswers bool // answers are recorded as done and not kept: for those that must not lie in a store

	// Resend asks the handler itself what became of an operation whose owner is gone: it runs again, with the request
	// of the next retry. Only for a handler, or an upstream, that honours the same key itself.
	Resend bool

	Policy  *retrysafe.Policy     // of claims. Defaults to the Executor's
	Recover retrysafe.RecoverFunc // defaults to the Executor's
	// BodyTimeout is for the next byte of a body: without it the request is refused with 400. Defaults to 30 s.
	// It takes the place of a read deadline that a layer outside has set, and never extends the server's
	// ReadTimeout. retrysafe.Off leaves deadlines alone.
	BodyTimeout time.Duration

	Quota  Quota   // of each scope. Defaults to none
	Quotas *Quotas // takes the place of Quota, to share one with other Middlewares

	// Suspect is for how long the same request under another key is told as a client that makes a new key for each
	// attempt: counted, and said in the log. Nothing is refused. Defaults to 10 s; Off looks for none.
	Suspect time.Duration

	// CORSOrigins are the origins, like https://shop.example.com or *, whose pages may see answers that the layer makes
	// itself: replays and refusals. On first answers the handler, or a layer outside, says so; it is not replayed,
	// since it may be about another page. CORSCredentials lets such pages send cookies.
	CORSOrigins     []string
	CORSCredentials bool

	Wait     time.Duration // for another attempt to end before 409. Defaults to 0
	Words    Words         // of the published Specification
	DocsBase string        // of the links in problems. Defaults to the project's own pages
	Logger   *slog.Logger  // never told a key or a payload. Defaults to silence: then a handler's panic goes unseen
}

// DefaultDocsBase is where the links in problems lead unless Options say otherwise.
const DefaultDocsBase = "https://github.com/retrysafe/retrysafe/blob/main/docs"

// largest bounds MaxBody and MaxResponse, so that one more does not overflow.
const largest = 1 << 40

func (o *Options) fill() error {
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	for _, m := range o.Methods {
		if !slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}, m) {
			return fmt.Errorf("method %q cannot be guarded: want POST, PATCH, PUT or DELETE", m)
		}
	}
	if o.Preset > Stripe {
		return errors.New("Preset is not one of IETF, IETFStrict and Stripe")
	}
	o.Outcomes = maps.Clone(o.Outcomes)
	if o.DocsBase == "" {
		o.DocsBase = DefaultDocsBase
	}
	o.DocsBase = strings.TrimSuffix(o.DocsBase, "/")
	if o.Fingerprint == nil {
		o.Fingerprint, o.Words.Fingerprint = RawFingerprint, cmp.Or(o.Words.Fingerprint, "raw")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return cmp.Or(o.Key.fill(), o.fillLimits(), o.Quota.check(), o.checkOutcomes(), CheckOrigins(o.CORSOrigins, o.CORSCredentials))
}

func (o *Options) fillLimits() error {
	if o.MaxKey < 0 || o.MaxBody < 0 || o.MaxResponse < 0 || o.Wait < 0 {
		return errors.New("MaxKey, MaxBody, MaxResponse and Wait must not be negative")
	}
	o.MaxKey = cmp.Or(o.MaxKey, 255)
	o.MaxBody = min(cmp.Or(o.MaxBody, 10<<20), largest)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, 1<<20), largest)
	if o.Quotas == nil {
		o.Quotas = NewQuotas(o.Quota)
	}
	if o.Bodies == nil {
		o.Bodies = NewBodies(cmp.Or(o.MaxBodies, max(256<<20, o.MaxBody)))
	}
	if o.Bodies.whole < o.MaxBody {
		return errors.New("MaxBodies must not be less than MaxBody: one body may be that large")
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	o.Suspect = cmp.Or(o.Suspect, 10*time.Second)
	if o.BodyTimeout < 0 && o.BodyTimeout != retrysafe.Off || o.Suspect < 0 && o.Suspect != retrysafe.Off {
		return errors.New("BodyTimeout and Suspect must not be negative")
	}
	return nil
}

// policy is what is stored with the claims of this guard, nil for the Executor's.
func (o *Options) policy(e *retrysafe.Executor) *retrysafe.Policy {
	if o.Preset != Stripe && !o.Resend {
		return o.Policy
	}
	p := e.Policy()
	if o.Policy != nil {
		p = *o.Policy
	} else {
		p.Remember = o.Preset.remember(p.Remember)
	}
	if o.Resend {
		p.OnLeaseEnd = retrysafe.Recover
	}
	return &p
}
