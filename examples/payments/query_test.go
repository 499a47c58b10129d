package payments

import (
	"fmt"
	"net/url"
	"reflect"
	"testing"
)

// threeCustomers makes charges of three customers: slips 1 to 9, customer c0 on
// slips 1, 4, 7 and so on, every third memo "tea & milk".
func threeCustomers(t *testing.T) *server {
	t.Helper()
	s := serve(t, nil)
	for i := range 9 {
		memo := ""
		if i%4 == 0 {
			memo = "tea & milk"
		}
		s.charge(fmt.Sprintf(`{"customer":"c%d","amount":%d,"currency":"EUR","memo":%q}`, i%3, i+1, memo))
	}
	return s
}

func TestListFilters(t *testing.T) {
	s := threeCustomers(t)
	tests := []struct {
		name, query string
		slips       []int64
		next        int64
	}{
		{"all", "", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{"one customer", "?customer=c1", []int64{2, 5, 8}, 0},
		{"nobody's", "?customer=c9", nil, 0},
		{"an empty filter filters", "?customer=", nil, 0},
		{"memo", "?memo=tea+%26+milk", []int64{1, 5, 9}, 0},
		{"no memo", "?memo=&limit=2", []int64{2, 3}, 3},
		{"customer and memo", "?customer=c1&memo=tea+%26+milk", []int64{5}, 0},
		{"first page", "?limit=4", []int64{1, 2, 3, 4}, 4},
		{"next page", "?limit=4&after=4", []int64{5, 6, 7, 8}, 8},
		{"last page", "?limit=4&after=8", []int64{9}, 0},
		{"page that ends with the last", "?limit=9", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0},
		{"behind the last", "?after=9", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			page := decoded[Page](t, s.must(200, "GET", "/charges"+tt.query, ""))
			var slips []int64
			for _, c := range page.Charges {
				slips = append(slips, c.Slip)
			}
			if !reflect.DeepEqual(slips, tt.slips) || page.Next != tt.next {
				t.Errorf("GET /charges%s: got %v, next %d, want %v, next %d", tt.query, slips, page.Next, tt.slips, tt.next)
			}
		})
	}
	if got, want := s.must(200, "GET", "/charges?customer=c9", "").body, `{"charges":[]}`; got != want {
		t.Errorf("GET of an empty list: got %s, want %s", got, want)
	}
}

func TestListPagesByTwenty(t *testing.T) {
	s := serve(t, nil)
	for range 21 {
		s.charge(oneEuro)
	}
	page := decoded[Page](t, s.must(200, "GET", "/charges", ""))
	if len(page.Charges) != 20 || page.Next != 20 {
		t.Errorf("GET /charges: got %d charges, next %d, want 20, next 20", len(page.Charges), page.Next)
	}
}

func TestQueriesRefuseBadInput(t *testing.T) {
	s := threeCustomers(t)
	for _, target := range []string{
		"/charges?limit=0", "/charges?limit=101", "/charges?limit=x", "/charges?limit=",
		"/charges?after=-1", "/charges?after=1.5", "/charges?after=9223372036854775808",
		"/charges?custommer=c1", "/charges?customer=c1&customer=c2", "/charges?Customer=c1",
		"/charges?customer=%zz", "/charges?customer=c1;memo=x", "/totals?memo=x", "/totals?limit=1",
	} {
		t.Run(target, func(t *testing.T) {
			s := s.in(t)
			wantProblem(t, s.must(400, "GET", target, ""))
		})
	}
}

func TestTotalsLeaveOutRefunds(t *testing.T) {
	s := threeCustomers(t)
	s.charge(`{"customer":"c1","amount":1000,"currency":"USD","capture":false}`)
	refunded := s.charge(`{"customer":"c1","amount":5000,"currency":"USD"}`)
	s.must(200, "POST", "/charges/"+refunded.ID+"/refund", "")
	tests := []struct {
		name, query string
		want        Totals
	}{
		{"all", "", Totals{Count: 10, Sums: map[string]int64{"EUR": 45, "USD": 1000}}},
		{"one customer", "?customer=c1", Totals{Count: 4, Sums: map[string]int64{"EUR": 15, "USD": 1000}}},
		{"nobody", "?customer=c9", Totals{Sums: map[string]int64{}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			if got := s.totals(tt.query); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("GET /totals%s: got %+v, want %+v", tt.query, got, tt.want)
			}
		})
	}
}

func TestTotalsBeyond64BitsFail(t *testing.T) {
	s := serve(t, nil)
	execute(t, s.path, `insert into charges (id, customer, amount, currency, state, memo, created) values
		('ch_1', 'c1', 9000000000000000000, 'EUR', 'captured', '', ''),
		('ch_2', 'c1', 9000000000000000000, 'EUR', 'captured', '', '')`)
	wantProblem(t, s.must(500, "GET", "/totals", ""))
}

func TestNoSuchCharge(t *testing.T) {
	s := serve(t, nil)
	for _, id := range []string{"ch_none", "1", url.PathEscape("a/b"), "%00"} {
		wantProblem(t, s.must(404, "GET", "/charges/"+id, ""))
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add("customer=c1&memo=x&limit=3&after=7")
	f.Add("limit=101")
	f.Add("after=-1")
	f.Add("limit=1&limit=2")
	f.Add("a=%zz;b")
	f.Fuzz(func(t *testing.T, query string) {
		got, err := parseFilter(query, "customer", "memo", "limit", "after")
		if err != nil {
			return
		}
		if got.limit < 1 || got.limit > maxLimit || got.after < 0 {
			t.Errorf("parseFilter(%q): got limit %d, after %d, want them in range", query, got.limit, got.after)
		}
		values, _ := url.ParseQuery(query)
		if values.Has("customer") != (got.customer != nil) || values.Has("memo") != (got.memo != nil) {
			t.Errorf("parseFilter(%q): got %+v, want a filter for each one given", query, got)
		}
	})
}
