package admin

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/answer"
)

// A Summary is a key as the list tells of it.
type Summary struct {
	ID         string `json:"id"`
	Scope      string `json:"scope"`
	Key        string `json:"key"`
	State      string `json:"state"` // in_flight, completed, unknown, unknown_answered, free or expired
	Started    Time   `json:"started"`
	Finished   Time   `json:"finished"` // null while in flight or held
	Expires    Time   `json:"expires"`  // of the lease, the answer or the memory; null for never
	Replays    int    `json:"replays"`  // approximate
	Attempts   int    `json:"attempts"`
	Epoch      int64  `json:"epoch"`
	Reason     string `json:"reason"` // why the outcome is unknown
	NotKept    bool   `json:"not_kept"`
	Unreadable bool   `json:"unreadable,omitempty"` // damaged, or of a newer version: id, scope, key and state are all that is known
}

// A Detail is all that is known of one key.
type Detail struct {
	Summary
	History []Act   `json:"history"` // oldest first
	Policy  *Policy `json:"policy"`  // null if unreadable
	Acted   *bool   `json:"acted"`   // whether it may have acted; null unless the policy is two-step
	Answer  *Answer `json:"answer"`  // null if none is kept
}

// An Act is one decision of an operator.
type Act struct {
	At     Time   `json:"at"`
	By     string `json:"by"`
	Reason string `json:"reason"`
	Did    string `json:"did"`  // completed, released or forgot
	From   string `json:"from"` // the state it met
}

// A Policy is what the claim was made under.
type Policy struct {
	OnLeaseEnd string  `json:"on_lease_end"` // hold, rerun or recover
	TwoStep    bool    `json:"two_step"`
	Lease      float64 `json:"lease_seconds"`
	Retention  float64 `json:"retention_seconds"`
	Remember   float64 `json:"remember_seconds"`
}

// An Answer is the answer that retries get. Its header values and its body are told only when asked for.
type Answer struct {
	Status      int         `json:"status,omitempty"` // 0: not of an HTTP handler
	HeaderNames []string    `json:"header_names"`
	BodyBytes   int         `json:"body_bytes"`
	Headers     http.Header `json:"headers,omitzero"`
	Body        []byte      `json:"body,omitzero"` // base64
}

// A Time is null when it is zero, else RFC 3339 in UTC with microseconds, the store's resolution.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler; reading is that of time.Time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000000Z"`), nil
}

func summaryOf(r retrysafe.Record) Summary {
	return Summary{
		ID: r.ID.String(), Scope: r.Scope, Key: r.Key, State: r.State.String(),
		Started: Time{r.Started}, Finished: Time{r.Finished}, Expires: Time{r.Expires},
		Replays: r.Replays, Attempts: r.Attempts, Epoch: r.Epoch, Reason: r.Reason, NotKept: r.NotKept,
		Unreadable: r.Unreadable,
	}
}

// detailOf is r with the values of its answer, or only their names and sizes.
func detailOf(r retrysafe.Record, values bool) Detail {
	d := Detail{Summary: summaryOf(r), History: make([]Act, 0, len(r.History))}
	if d.Unreadable {
		return d
	}
	for _, a := range r.History {
		d.History = append(d.History, Act{At: Time{a.At}, By: a.By, Reason: a.Why, Did: a.Did, From: a.From.String()})
	}
	d.Policy = &Policy{OnLeaseEnd: r.Policy.OnLeaseEnd.String(), TwoStep: r.Policy.TwoStep, Lease: r.Policy.Lease.Seconds(),
		Retention: r.Policy.Retention.Seconds(), Remember: r.Policy.Remember.Seconds()}
	if r.Policy.TwoStep {
		d.Acted = &r.Acted
	}
	if r.Answer != nil {
		d.Answer = answerOf(r.Answer, values)
	}
	return d
}

// answerOf tells of a kept answer. One that is not of an HTTP handler is a body alone.
func answerOf(kept []byte, values bool) *Answer {
	a, err := answer.Decode(kept)
	if err != nil {
		a = answer.Answer{Body: kept}
	}
	told := &Answer{Status: a.Status, HeaderNames: slices.Sorted(maps.Keys(a.Header)), BodyBytes: len(a.Body)}
	if told.HeaderNames == nil {
		told.HeaderNames = []string{}
	}
	if values {
		told.Headers, told.Body = a.Header, a.Body
	}
	return told
}
