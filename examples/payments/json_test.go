package payments

import (
	"encoding/json"
	"testing"
)

// What is accepted keeps the limits, and says the same when it is sent on: no
// second reading of the body is possible.
func FuzzDecodeCharge(f *testing.F) {
	f.Add([]byte(oneEuro))
	f.Add([]byte(`{"customer":"c1","amount":100,"currency":"EUR","memo":"m","order_no":"o","capture":false}`))
	f.Add([]byte(`{"amount":1,"amount":2}`))
	f.Add([]byte(`{"Amount":1}`))
	f.Add([]byte("{\"memo\":\"\xff\\ud800\"}"))
	f.Add([]byte(`{}{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var first chargeRequest
		if decode(body, &first) != nil || first.check() != nil {
			return
		}
		if first.Amount < 1 || first.Amount > maxAmount || len(first.Currency) != 3 || first.Customer == "" {
			t.Fatalf("decode(%q): got %+v, want it refused", body, first)
		}
		text, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		var second chargeRequest
		if err := decode(text, &second); err != nil {
			t.Fatalf("decode(%s): %v", text, err)
		}
		if again, _ := json.Marshal(second); string(again) != string(text) {
			t.Fatalf("decode(%q): got %s, then %s", body, text, again)
		}
	})
}
