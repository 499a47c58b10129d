package payments

import (
	"strings"
	"testing"
)

const ada = `{"name":"Ada","email":"ada@example.com"}`

func TestCustomerIsSetReadAndDeleted(t *testing.T) {
	s := serve(t, nil)
	const path, want = "/customers/c-1", `{"id":"c-1","name":"Ada","email":"ada@example.com"}`

	created := s.must(201, "PUT", path, ada)
	if created.body != want || created.header.Get("Location") != path {
		t.Errorf("first PUT: got %v at %q, want %s at %s", created, created.header.Get("Location"), want, path)
	}
	if again := s.must(200, "PUT", path, ada); again.body != want || again.header.Get("Location") != "" {
		t.Errorf("second PUT: got %v, want %s and no Location", again, want)
	}
	if read := s.must(200, "GET", path, ""); read.body != want {
		t.Errorf("GET: got %s, want %s", read.body, want)
	}
	// What was read may be sent back, and replaces the whole.
	s.must(200, "PUT", path, `{"id":"c-1","name":"Ada L."}`)
	if got := decoded[Customer](t, s.must(200, "GET", path, "")); got != (Customer{ID: "c-1", Name: "Ada L."}) {
		t.Errorf("GET after another PUT: got %+v, want the new name and no e-mail", got)
	}

	if gone := s.must(204, "DELETE", path, ""); gone.body != "" {
		t.Errorf("DELETE: got body %q, want none", gone.body)
	}
	wantProblem(t, s.must(404, "DELETE", path, ""))
	wantProblem(t, s.must(404, "GET", path, ""))
	s.must(201, "PUT", path, ada)
}

func TestDeletingACustomerKeepsTheCharges(t *testing.T) {
	s := serve(t, nil)
	s.must(201, "PUT", "/customers/c1", ada)
	s.charge(oneEuro)
	s.must(204, "DELETE", "/customers/c1", "")
	if got := s.totals("?customer=c1").Count; got != 1 {
		t.Errorf("got %d charges, want 1", got)
	}
}

func TestParallelPutsCreateOnce(t *testing.T) {
	s := serve(t, nil)
	created := 0
	for _, a := range s.parallel(20, "PUT", func(int) (string, string) { return "/customers/c1", ada }) {
		switch a.status {
		case 201:
			created++
		case 200:
		default:
			t.Errorf("got %v, want 200 or 201", a)
		}
	}
	if created != 1 {
		t.Errorf("got %d times 201, want once", created)
	}
}

func TestParallelDeletesDeleteOnce(t *testing.T) {
	s := serve(t, nil)
	s.must(201, "PUT", "/customers/c1", ada)
	deleted := 0
	for _, a := range s.parallel(20, "DELETE", func(int) (string, string) { return "/customers/c1", "" }) {
		if a.status == 204 {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("got %d times 204, want once", deleted)
	}
}

func TestCustomerRefusesBadInput(t *testing.T) {
	s := serve(t, nil)
	tests := []struct {
		name, method, target, body string
		status                     int
	}{
		{"no body", "PUT", "/customers/c1", "", 415},
		{"no name", "PUT", "/customers/c1", `{"email":"ada@example.com"}`, 400},
		{"long name", "PUT", "/customers/c1", `{"name":"` + strings.Repeat("a", 201) + `"}`, 400},
		{"long e-mail", "PUT", "/customers/c1", `{"name":"Ada","email":"` + strings.Repeat("a", 255) + `"}`, 400},
		{"another id", "PUT", "/customers/c1", `{"id":"c2","name":"Ada"}`, 400},
		{"unknown field", "PUT", "/customers/c1", `{"name":"Ada","balance":1}`, 400},
		{"id with a space", "PUT", "/customers/c%201", ada, 400},
		{"delete with a condition in the body", "DELETE", "/customers/c1", `{"if":"empty"}`, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			wantProblem(t, s.must(tt.status, tt.method, tt.target, tt.body))
		})
	}
	wantProblem(t, s.must(404, "GET", "/customers/c1", ""))
}
