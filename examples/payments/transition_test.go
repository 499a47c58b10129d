package payments

import (
	"database/sql"
	"testing"
)

func TestTransitions(t *testing.T) {
	const capture, refund = "/capture", "/refund"
	tests := []struct {
		name   string
		steps  []string
		status int
		state  State
	}{
		{"capture", []string{capture}, 200, Captured},
		{"capture again", []string{capture, capture}, 200, Captured},
		{"refund", []string{capture, refund}, 200, Refunded},
		{"refund again", []string{capture, refund, refund}, 200, Refunded},
		{"refund before capture", []string{refund}, 409, Authorized},
		{"capture after refund", []string{capture, refund, capture}, 409, Refunded},
	}
	s := serve(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			want := s.charge(`{"customer":"c1","amount":100,"currency":"EUR","capture":false}`)
			var last answer
			for _, step := range tt.steps {
				last, _ = s.send(t.Context(), "POST", "/charges/"+want.ID+step, "")
			}
			if last.status != tt.status {
				t.Fatalf("%v: got %v, want %d", tt.steps, last, tt.status)
			}
			read := s.must(200, "GET", "/charges/"+want.ID, "")
			want.State = tt.state
			if got := decoded[Charge](t, read); got != want {
				t.Errorf("%v: got charge %+v, want %+v", tt.steps, got, want)
			}
			if tt.status == 200 && last.body != read.body {
				t.Errorf("%v: got answer %s, want the charge %s", tt.steps, last.body, read.body)
			}
			if tt.status == 409 {
				wantState(t, last, tt.state)
			}
		})
	}
}

func wantState(t *testing.T, a answer, state State) {
	t.Helper()
	if p := wantProblem(t, a); p.State != state || p.Type != docs+"impossible-transition" {
		t.Errorf("got %+v, want an impossible transition from %s", p, state)
	}
}

func TestTransitionRefusesBadInput(t *testing.T) {
	s := serve(t, nil)
	c := s.charge(oneEuro)
	tests := []struct {
		name, target, body string
		status             int
	}{
		{"no such charge", "/charges/ch_none/capture", "", 404},
		{"amount of a partial refund", "/charges/" + c.ID + "/refund", `{"amount":1}`, 400},
		{"no object", "/charges/" + c.ID + "/refund", `1`, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			wantProblem(t, s.must(tt.status, "POST", tt.target, tt.body))
		})
	}
	if got := decoded[Charge](t, s.must(200, "GET", "/charges/"+c.ID, "")); got != c {
		t.Errorf("after bad input: got %+v, want %+v", got, c)
	}
	s.must(200, "POST", "/charges/"+c.ID+"/refund", `{}`)
}

// The witness is a trigger: it sees each update that changed a row, whatever
// the answers say.
func TestParallelCapturesMakeOneTransition(t *testing.T) {
	s := serve(t, nil)
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `
		create table witness (id text not null);
		create trigger witness_updates after update on charges begin
			insert into witness (id) values (new.id);
		end`); err != nil {
		t.Fatal(err)
	}
	c := s.charge(`{"customer":"c1","amount":100,"currency":"EUR","capture":false}`)
	answers := s.parallel(50, "POST", func(int) (string, string) { return "/charges/" + c.ID + "/capture", "" })
	for _, a := range answers {
		if a.status != 200 || a.body != answers[0].body {
			t.Errorf("got %v, want 200 %s", a, answers[0].body)
		}
	}
	var updates int
	if err := db.QueryRowContext(t.Context(), `select count(id) from witness`).Scan(&updates); err != nil {
		t.Fatal(err)
	}
	if updates != 1 {
		t.Errorf("50 captures at once: got %d updates, want 1", updates)
	}
}
