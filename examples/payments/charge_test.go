package payments

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const oneEuro = `{"customer":"c1","amount":100,"currency":"EUR"}`

func TestChargeIsAnsweredWhole(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.FixedZone("", 3600))
	s := serve(t, &Options{Now: func() time.Time { return now }})
	tests := []struct {
		name, body string
		want       Charge
	}{
		{"everything", `{"customer":"c-1","amount":1250,"currency":"EUR","memo":"täglich","order_no":"A.7","capture":false}`,
			Charge{Slip: 1, Customer: "c-1", Amount: 1250, Currency: "EUR", State: Authorized, Memo: "täglich", OrderNo: "A.7"}},
		{"least", `{"customer":"c1","amount":1,"currency":"JPY"}`,
			Charge{Slip: 2, Customer: "c1", Amount: 1, Currency: "JPY", State: Captured}},
		{"most", `{"customer":"c1","amount":999999999999,"currency":"USD","memo":"` + strings.Repeat("m", 500) + `"}`,
			Charge{Slip: 3, Customer: "c1", Amount: 999999999999, Currency: "USD", State: Captured, Memo: strings.Repeat("m", 500)}},
		{"null is not given", `{"customer":"c1","amount":1,"currency":"JPY","order_no":null,"capture":null,"memo":null}`,
			Charge{Slip: 4, Customer: "c1", Amount: 1, Currency: "JPY", State: Captured}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			made := s.must(201, "POST", "/charges", tt.body)
			got := decoded[Charge](t, made)
			tt.want.ID, tt.want.Created = got.ID, "2026-03-04T04:06:07.089000Z"
			if got != tt.want {
				t.Errorf("POST /charges %s: got %+v, want %+v", tt.body, got, tt.want)
			}
			location := made.header.Get("Location")
			if location != "/charges/"+got.ID || !strings.HasPrefix(got.ID, "ch_") {
				t.Errorf("got Location %q for id %q", location, got.ID)
			}
			if read := s.must(200, "GET", location, ""); read.body != made.body {
				t.Errorf("GET %s: got %s, want %s", location, read.body, made.body)
			}
		})
	}
}

func TestChargeRefusesBadInput(t *testing.T) {
	s := serve(t, nil)
	with := func(member string) string { return `{"customer":"c1","amount":100,"currency":"EUR",` + member + `}` }
	tests := []struct{ name, body, detail string }{
		{"array", `[]`, "not one JSON object"},
		{"null", `null`, "not one JSON object"},
		{"two objects", oneEuro + oneEuro, "not one JSON object"},
		{"cut off", oneEuro[:20], "not one JSON object"},
		{"not UTF-8", with("\"memo\":\"\xff\""), "not UTF-8"},
		{"unknown field", with(`"tip":1`), "unknown field"},
		{"field in another case", with(`"Capture":false`), "unknown field"},
		{"field twice", with(`"amount":900`), "twice"},
		{"field twice, escaped", with(`"am\u006funt":900`), "twice"},
		{"no customer", `{"amount":100,"currency":"EUR"}`, "customer"},
		{"customer with a slash", `{"customer":"a/b","amount":100,"currency":"EUR"}`, "customer"},
		{"long customer", `{"customer":"` + strings.Repeat("a", 65) + `","amount":100,"currency":"EUR"}`, "customer"},
		{"no amount", `{"customer":"c1","currency":"EUR"}`, "amount"},
		{"nothing to pay", `{"customer":"c1","amount":0,"currency":"EUR"}`, "amount"},
		{"negative amount", `{"customer":"c1","amount":-1,"currency":"EUR"}`, "amount"},
		{"fraction", `{"customer":"c1","amount":1.5,"currency":"EUR"}`, "amount"},
		{"amount as text", `{"customer":"c1","amount":"100","currency":"EUR"}`, "amount"},
		{"amount over the limit", `{"customer":"c1","amount":1000000000000,"currency":"EUR"}`, "amount"},
		{"amount over 64 bits", `{"customer":"c1","amount":9223372036854775808,"currency":"EUR"}`, "amount"},
		{"no currency", `{"customer":"c1","amount":100}`, "currency"},
		{"currency in lower case", `{"customer":"c1","amount":100,"currency":"eur"}`, "currency"},
		{"currency not ASCII", `{"customer":"c1","amount":100,"currency":"ÉU"}`, "currency"},
		{"four letters", `{"customer":"c1","amount":100,"currency":"EURO"}`, "currency"},
		{"long memo", with(`"memo":"` + strings.Repeat("m", 501) + `"`), "memo"},
		{"memo of two lines", with(`"memo":"a\nb"`), "memo"},
		{"empty order number", with(`"order_no":""`), "order_no"},
		{"order number with a space", with(`"order_no":"a b"`), "order_no"},
		{"capture as text", with(`"capture":"no"`), "capture"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			p := wantProblem(t, s.must(400, "POST", "/charges", tt.body))
			if !strings.Contains(p.Detail, tt.detail) || p.Type != docs+"invalid-request" {
				t.Errorf("POST /charges %s: got %+v, want a detail with %q", tt.body, p, tt.detail)
			}
		})
	}
	if got := s.totals("").Count; got != 0 {
		t.Errorf("after bad input: got %d charges, want 0", got)
	}
}

func TestChargeRefusesOtherBodies(t *testing.T) {
	s := serve(t, nil)
	spaces := strings.Repeat(" ", maxBody-len(oneEuro))
	tests := []struct {
		name, media, body string
		status            int
	}{
		{"form", "application/x-www-form-urlencoded", "customer=c1", 415},
		{"no type", "", oneEuro, 415},
		{"malformed type", "application/json; =", oneEuro, 415},
		{"type with a charset", "application/json; charset=utf-8", oneEuro, 201},
		{"at the limit", "application/json", spaces + oneEuro, 201},
		{"over the limit", "application/json", " " + spaces + oneEuro, 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/charges", strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", tt.media)
			got, err := s.sendRequest(req)
			if err != nil {
				t.Fatal(err)
			}
			if got.status != tt.status {
				t.Fatalf("POST /charges as %q: got %v, want %d", tt.media, got, tt.status)
			}
			if got.status >= 400 {
				wantProblem(t, got)
			}
			if accept := got.header.Get("Accept"); got.status == 415 && accept != "application/json" {
				t.Errorf("got Accept %q, want application/json", accept)
			}
		})
	}
}

func TestBareRepeatChargesAgain(t *testing.T) {
	s := serve(t, nil)
	first, second := s.charge(oneEuro), s.charge(oneEuro)
	if first.ID == second.ID || second.Slip != first.Slip+1 {
		t.Errorf("got %+v and %+v, want two charges on successive slips", first, second)
	}
	if got := s.totals(""); got.Count != 2 || got.Sums["EUR"] != 200 {
		t.Errorf("GET /totals: got %+v, want 2 charges of 200 EUR", got)
	}
}

func TestOrderIsChargedOnce(t *testing.T) {
	s := serve(t, nil)
	order := `{"customer":"c1","amount":100,"currency":"EUR","order_no":"o-1"}`
	first := s.charge(order)
	for _, body := range []string{order, strings.Replace(order, "100", "200", 1)} {
		again := s.must(409, "POST", "/charges", body)
		p := wantProblem(t, again)
		if p.Existing != first.ID || p.Type != docs+"order-exists" {
			t.Errorf("POST /charges %s: got %+v, want existing %s", body, p, first.ID)
		}
		if got, want := again.header.Get("Location"), "/charges/"+first.ID; got != want {
			t.Errorf("got Location %q, want %q", got, want)
		}
	}
	next := s.charge(`{"customer":"c1","amount":100,"currency":"EUR","order_no":"o-2"}`)
	if next.Slip != first.Slip+1 {
		t.Errorf("after refused orders: got slip %d, want %d", next.Slip, first.Slip+1)
	}
}

func TestParallelChargesTakeGaplessSlips(t *testing.T) {
	s := serve(t, nil)
	answers := s.parallel(50, "POST", func(int) (string, string) { return "/charges", oneEuro })
	var slips []int64
	for _, a := range answers {
		slips = append(slips, decoded[Charge](t, a).Slip)
	}
	slices.Sort(slips)
	for i, slip := range slips {
		if slip != int64(i+1) {
			t.Fatalf("got slips %v, want 1 to 50, each once", slips)
		}
	}
}

func TestParallelRequestsForOneOrderMakeOneCharge(t *testing.T) {
	s := serve(t, nil)
	answers := s.parallel(50, "POST", func(i int) (string, string) {
		return "/charges", fmt.Sprintf(`{"customer":"c%d","amount":100,"currency":"EUR","order_no":"o-1"}`, i)
	})
	made := map[string]int{}
	for _, a := range answers {
		switch a.status {
		case 201:
			made[decoded[Charge](t, a).ID] += 100
		case 409:
			made[wantProblem(t, a).Existing]++
		default:
			t.Errorf("got %v, want 201 or 409", a)
		}
	}
	if got := s.totals("").Count; got != 1 || len(made) != 1 {
		t.Errorf("got %d charges, answers %v, want one charge that all answers name", got, made)
	}
	for id, score := range made {
		if score != 149 {
			t.Errorf("charge %s: got score %d, want one 201 and 49 times 409", id, score)
		}
	}
}

// parallel sends n requests at once, from n connections.
func (s *server) parallel(n int, method string, request func(i int) (target, body string)) []answer {
	s.t.Helper()
	answers, start := make([]answer, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			target, body := request(i)
			<-start
			var err error
			if answers[i], err = s.send(s.t.Context(), method, target, body); err != nil {
				s.t.Errorf("%s %s: %v", method, target, err)
			}
		})
	}
	close(start)
	wg.Wait()
	return answers
}

// The caller loses the answer of a charge that was made: the very case that the
// layer in front exists for.
func TestAfterEffectComesBetweenCommitAndAnswer(t *testing.T) {
	var s *server
	calls := 0
	s = serve(t, &Options{AfterEffect: func(r *http.Request) {
		calls++
		if got := r.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("AfterEffect: got a request of %q, want the charge's", got)
		}
		page := decoded[Page](t, s.must(200, "GET", "/charges", ""))
		if len(page.Charges) != calls {
			t.Errorf("in AfterEffect: got %d charges, want %d", len(page.Charges), calls)
		}
		panic(http.ErrAbortHandler) // cuts the connection
	}})
	order := `{"customer":"c1","amount":100,"currency":"EUR","order_no":"o-1"}`
	if got, err := s.send(t.Context(), "POST", "/charges", order); err == nil {
		t.Fatalf("got %v, want a cut connection", got)
	}
	wantProblem(t, s.must(409, "POST", "/charges", order))
	wantProblem(t, s.must(400, "POST", "/charges", `{}`))
	if calls != 1 {
		t.Errorf("got %d calls, want 1: only for what took effect", calls)
	}
}
