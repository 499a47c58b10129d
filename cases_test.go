package retrysafe_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The kinds of fault that users of such systems met over HTTP. Each is the subject of tests that bear its name, or
// cannot happen here. Where a kind was met is told beside the fault of internal/mutants that brings it back.

// A faultKind is one of them.
type faultKind struct {
	name string // group and number
	what string
	not  string // why no test has its name; "" for those that are tested
}

// The groups: KP key parsing, FP fingerprint, RC response capture, HR headers on replay, OU outcomes, TT times, TN
// tenants, ST streams, BE bodies, TO time-outs, GW gateway.
var faultKinds = []faultKind{
	{"KP-1", "a header that a proxy doubled makes another key", ""},
	{"KP-2", "a comma in a key cannot be told from two keys that were joined", ""},
	{"KP-4", "a header that is there and empty passes for none", ""},
	{"KP-5", "keys are folded to one case, or trimmed", ""},
	{"KP-7", "the length of a key counts characters", ""},
	{"KP-8", "a key of any length reaches the store", ""},
	{"KP-10", "a header of the caller's says that the request was handled", ""},
	{"KP-11", "a missing key is reported as another fault", ""},

	{"FP-1", "members of JSON in another order are another request", ""},
	{"FP-2", "bytes that must be the same are not compared as bytes", ""},
	{"FP-4", "white space is another request", ""},
	{"FP-5", "integers are compared after they were rounded", ""},
	{"FP-7", "of two members with one name, one counts", ""},
	{"FP-8", "a key is not bound to method, path and body", ""},
	{"FP-10", "the query does not count", ""},
	{"FP-11", "the pattern of a route counts instead of the path", ""},
	{"FP-13", "the whole body is kept, and a part of it compared", ""},
	{"FP-14", "a selection of the body fails at the first request", ""},
	{"FP-16", "a boundary that is made anew is another request", ""},
	{"FP-17", "members that change with every attempt are another request", ""},
	{"FP-19", "a fingerprint that was stolen tells a short body", ""},
	{"FP-20", "a mismatch does not say what became of the first request", ""},
	{"FP-22", "a body that was compressed anew is another request", ""},

	{"RC-1", "a replay has another status or body than what went out", ""},
	{"RC-2", "a status that few use is lost", ""},
	{"RC-4", "an answer without a value skips what follows it", "no hook follows an answer; empty ones are rows of TestAnswerIsTheHandlersOwn"},
	{"RC-5", "an answer is seen only if it is written in one way", ""},
	{"RC-7", "bytes that are no text are garbled", ""},
	{"RC-8", "an answer that is too large is not recorded, and runs again", ""},
	{"RC-10", "the store puts an answer in another order", ""},
	{"RC-11", "headers come back wrong", ""},
	{"RC-13", "an answer that cannot be kept fails after the effect", ""},
	{"RC-14", "what arrived at the caller decides what is recorded", ""},
	{"RC-16", "a replay shows what became of it since", ""},
	{"RC-17", "an informational answer passes for the answer", ""},
	{"RC-19", "a replay sends its messages again", ""},

	{"HR-1", "Location, ETag or Link are lost on replay", ""},
	{"HR-2", "a cookie or a challenge is replayed", ""},
	{"HR-4", "the framing of the first answer is replayed", ""},
	{"HR-5", "a browser may not read that it is a replay", ""},
	{"HR-7", "nobody says for how long a key is good", ""},
	{"HR-8", "a replay has a coding that its caller cannot read", ""},
	{"HR-10", "a replayed 201 is a 200", ""},
	{"HR-11", "a replay may be kept by shared caches", ""},

	{"OU-1", "a 429 is replayed for ever", ""},
	{"OU-2", "a failure that is final runs again", ""},
	{"OU-4", "two ways to the same operation disagree on failures", "there is one way: both doors classify with one table, and TestDoorsGiveTheSameAnswers asks both"},
	{"OU-5", "a request that was refused uses its key up", ""},

	{"TT-1", "the time that an answer is kept counts from the wrong moment", ""},
	{"TT-2", "what expired stands until somebody sweeps", ""},
	{"TT-4", "sweeping holds everybody up", ""},
	{"TT-5", "two clocks decide about one lease", ""},
	{"TT-7", "a key that is no longer kept passes for one that was never used", ""},
	{"TT-8", "nobody can free a key on purpose", ""},
	{"TT-10", "who needs room evicts what is in flight", ""},

	{"TN-1", "two tenants share a key", ""},
	{"TN-2", "callers who are not known share one scope", ""},
	{"TN-4", "a token that was used once refuses the retry", ""},
	{"TN-5", "a conflict tells of the first request", ""},
	{"TN-7", "secrets in answers are kept in clear", ""},
	{"TN-8", "one tenant takes up all keys", ""},
	{"TN-10", "a caller's key reaches another trust domain", ""},

	{"ST-1", "a stream is held back to its end", ""},
	{"ST-2", "a wrapped writer can no longer flush or hijack", ""},
	{"ST-4", "an answer that broke off on its way to the caller was never recorded", ""},
	{"ST-5", "trailers or informational answers are lost or kept wrongly", ""},

	{"BE-1", "a limit believes the length that was declared", ""},
	{"BE-2", "the handler gets another body than was sent", ""},
	{"BE-4", "a body that broke off claims its key", ""},
	{"BE-5", "the answer comes before the body was read", ""},

	{"TO-1", "a sender tries again before the first attempt has ended", ""},
	{"TO-2", "a retry fails where it could wait", ""},
	{"TO-4", "a lease is too long for who died, or too short for who works", ""},
	{"TO-5", "many who wait for one key ask the store each", ""},

	{"GW-1", "the HTTP client sends a request twice by itself", ""},
	{"GW-2", "a proxy retries what is not safe to", ""},
	{"GW-4", "gateways do not do this", "no fault but a wish, for what package gateway is"},
	{"GW-5", "a key that the gateway made passes for one of the caller's", "the gateway makes no keys"},
	{"GW-7", "a path is changed before it is compared or forwarded", ""},
	{"GW-8", "an answer is recorded after it went out", ""},
}

// TestEveryKindOfFaultIsTested looks for the name of each in the tests, which bear it in their own names and rows, or
// in the comment above them.
func TestEveryKindOfFaultIsTested(t *testing.T) {
	h, err := readHouse(os.DirFS("."))
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	name := regexp.MustCompile(`\b[A-Z]{2}-[0-9]+\b`)
	tested := map[string][]string{}
	for _, f := range h.code {
		if !f.test || f.dir == "internal/mutants" || f.path == "cases_test.go" {
			continue
		}
		for _, kind := range name.FindAllString(h.texts[f.path], -1) {
			tested[kind] = append(tested[kind], f.path)
		}
	}
	seen := map[string]bool{}
	for _, k := range faultKinds {
		switch {
		case seen[k.name]:
			t.Errorf("%s stands there twice", k.name)
		case k.not == "" && len(tested[k.name]) == 0:
			t.Errorf("%s (%s): no test has its name", k.name, k.what)
		case k.not != "" && len(tested[k.name]) > 0:
			t.Errorf("%s (%s) is tested in %s: it does apply", k.name, k.what, strings.Join(slices.Compact(tested[k.name]), ", "))
		}
		seen[k.name] = true
	}
}
