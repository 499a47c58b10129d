package gateway_test

import (
	"encoding/json"
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idemhttp"
	"github.com/retrysafe/retrysafe/internal/problem"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// The two doors give the same answers: the middleware in front of an API, and the gateway in front of the same API
// behind a wire. Both are real servers, asked by a real client, with the same generated scenarios.

var (
	scenarios = flag.Int("scenarios", 500, "how many `scenarios` both doors are asked")
	seed      = flag.Uint64("seed", 1, "of the generated scenarios")
)

// guards are the configurations that are compared.
var guards = []idemhttp.Options{
	{MaxBody: playBody, MaxResponse: playAnswer},
	{MaxBody: playBody, MaxResponse: playAnswer, Required: true, Methods: []string{"POST", "PUT", "DELETE"}},
	{MaxBody: playBody, MaxResponse: playAnswer, Preset: idemhttp.IETFStrict, ReplayHeaders: []string{"X-Kept"}},
}

// A world is one configuration behind both doors.
type world struct {
	middleware, gateway door
}

// A door is one of the two, with an API of its own behind it.
type door struct {
	url string
	api *api
}

func newWorld(t *testing.T, o idemhttp.Options) world {
	t.Helper()
	scope := gateway.HeaderScope("X-Tenant", gateway.Loopback())
	behind := newAPI()
	e, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := idemhttp.New(e, scope, &o)
	if err != nil {
		t.Fatal(err)
	}
	w := world{middleware: door{"http://" + serve(t, g.Handler(behind)), behind}}
	behind = newAPI()
	l := labOver(t, memstore.New(nil), "http://"+serve(t, behind), scope, gateway.Options{Guard: o})
	w.gateway = door{"http://" + serve(t, l), behind}
	return w
}

// A told is what the caller of one play was told, as far as the doors are to agree.
type told struct {
	Status int
	Header http.Header
	Body   string
	Lost   bool // there is no whole answer of the API, and the outcome is unknown
	Runs   int
}

// ask has a door answer a play of a scenario.
func (d door) ask(t *testing.T, c *http.Client, scenario string, p play) (got, meanwhile told) {
	t.Helper()
	if p.meanwhile == nil {
		return d.send(t, c, scenario, p), told{}
	}
	done := make(chan told, 1)
	go func() { done <- d.send(t, c, scenario, p) }()
	select {
	case <-d.api.came:
		meanwhile = d.send(t, c, scenario, *p.meanwhile)
		d.api.let(scenario)
		got = recv(t, "the held answer", done)
	case got = <-done: // it did not run
	}
	got.Runs = d.api.count(scenario)
	return got, meanwhile
}

func (d door) send(t *testing.T, c *http.Client, scenario string, p play) told {
	var body io.Reader
	if p.body != "" {
		body = strings.NewReader(p.body)
	}
	if p.chunked && body != nil {
		body = io.MultiReader(body) // of no length that the client knows
	}
	r, err := http.NewRequestWithContext(t.Context(), p.method, d.url, body)
	if err != nil {
		t.Errorf("request: %v", err)
		return told{}
	}
	path, query, hasQuery := strings.Cut(p.target, "?")
	r.URL.Opaque = "//" + r.URL.Host + path
	r.URL.RawQuery, r.URL.ForceQuery = query, hasQuery
	r.Header = http.Header{"X-Scenario": {scenario}, "X-Does": {p.does}, "idempotency-key": p.keys} // a name that keeps the client from sending twice
	for name, value := range map[string]string{"X-Tenant": p.tenant, "Content-Type": p.media} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := c.Do(r)
	if err != nil {
		return told{Lost: true, Runs: d.api.count(scenario)}
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return told{Lost: true, Runs: d.api.count(scenario)}
	}
	return normal(told{Status: res.StatusCode, Header: res.Header, Body: string(got), Runs: d.api.count(scenario)})
}

// normal is what a caller was told without what the doors may do in ways of their own: how the message was framed and
// when, and how they say that an answer was lost on its way. The middleware cuts the connection as its handler asked;
// the gateway, whose own connection is sound, says 502.
func normal(got told) told {
	var p struct {
		Type string
		Code problem.Code
	}
	if json.Unmarshal([]byte(got.Body), &p) == nil && got.Status == http.StatusBadGateway && (p.Code == problem.OutcomeUnknown || p.Type == "about:blank") {
		return told{Lost: true, Runs: got.Runs}
	}
	for _, name := range []string{"Date", "Content-Length", "Transfer-Encoding", "Connection"} {
		got.Header.Del(name)
	}
	return got
}

func TestDoorsGiveTheSameAnswers(t *testing.T) {
	worlds := make([]world, len(guards))
	for i, o := range guards {
		worlds[i] = newWorld(t, o)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	met := map[string]int{}
	for n := range *scenarios {
		r := rand.New(rand.NewPCG(*seed, uint64(n)))
		w, scenario := worlds[r.IntN(len(worlds))], strconv.Itoa(n)
		for i, p := range compose(r) {
			p = p.of(scenario)
			a, aside := w.middleware.ask(t, client, scenario, p)
			b, bside := w.gateway.ask(t, client, scenario, p)
			if diff := cmp.Diff([]told{a, aside}, []told{b, bside}); diff != "" {
				t.Fatalf("scenario %d, request %d: %v: middleware (-) and gateway (+) differ:\n%s", n, i, p, diff)
			}
			met[kindOf(a)]++
			if p.meanwhile != nil {
				met[kindOf(aside)]++
			}
		}
	}
	t.Logf("met: %v", met)
	for _, kind := range []string{"201", "201 replayed", "409 in-flight", "409 outcome-unknown", "422 key-reused", "400 key-invalid", "400 key-missing", "401 scope-missing", "413 body-too-large", "lost", "500 replayed", "200 replayed answer-not-kept"} {
		if met[kind] == 0 {
			t.Errorf("no scenario met %q: met %v", kind, slices.Sorted(maps.Keys(met)))
		}
	}
}

// kindOf names what was met, to see that the scenarios reach it.
func kindOf(got told) string {
	if got.Lost {
		return "lost"
	}
	kind := strconv.Itoa(got.Status)
	if got.Header.Get("Idempotent-Replayed") != "" {
		kind += " replayed"
	}
	if strings.Contains(strings.Join(got.Header.Values("Idempotency-Status"), " "), string(problem.AnswerNotKept)) {
		kind += " " + string(problem.AnswerNotKept)
	}
	var p struct{ Code string }
	if json.Unmarshal([]byte(got.Body), &p) == nil && p.Code != "" {
		kind += " " + p.Code
	}
	return kind
}
