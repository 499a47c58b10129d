package admin

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// resolve decides what happened.
func (a *API) resolve(r *http.Request) (any, error) {
	id, body, err := decision(r, maxResolution, answerTooLarge)
	if err != nil {
		return nil, err
	}
	res, err := parseResolution(body)
	if err != nil {
		return nil, err
	}
	return a.decide(r, func(ctx context.Context) (retrysafe.Record, error) {
		return a.executor.Resolve(ctx, id, retrysafe.Resolution{Happened: res.Action == Complete, Answer: res.answer(), By: res.By, Why: res.Reason, Force: res.Force})
	})
}

// forget makes a key claimable again.
func (a *API) forget(r *http.Request) (any, error) {
	id, body, err := decision(r, maxForgetting, "By, reason and force fit into 16 KiB: send nothing else.")
	if err != nil {
		return nil, err
	}
	f, err := parseForgetting(body)
	if err != nil {
		return nil, err
	}
	return a.decide(r, func(ctx context.Context) (retrysafe.Record, error) {
		return a.executor.Forget(ctx, id, f.By, f.Reason, f.Force)
	})
}

// decide carries out one decision and leaves its line in the log. A caller who hangs up changes nothing: what
// is written must be logged.
func (a *API) decide(r *http.Request, do func(context.Context) (retrysafe.Record, error)) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	defer cancel()
	rec, err := do(ctx)
	if err != nil {
		return nil, err
	}
	d := detailOf(rec, false)
	act := d.History[len(d.History)-1]
	a.o.Logger.Info("key decided", "id", rec.ID.String(), "by", act.By, "did", act.Did, "from", act.From, "epoch", rec.Epoch)
	return d, nil
}

// decision reads what a decision is about and its body. tooLarge is told when that has more than limit bytes.
func decision(r *http.Request, limit int64, tooLarge string) (id retrysafe.ID, body []byte, err error) {
	if id, err = idOf(r); err != nil {
		return id, nil, err
	}
	body, err = jsonBody(r, limit, tooLarge)
	return id, body, err
}

// jsonBody reads a body of JSON. tooLarge is told when it has more than limit bytes.
func jsonBody(r *http.Request, limit int64, tooLarge string) ([]byte, error) {
	if _, err := parametersOf(r.URL); err != nil {
		return nil, err
	}
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || t != "application/json" {
		return nil, &Error{Code: codeMediaType, Detail: "Send the decision as JSON, with Content-Type: application/json."}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &Error{Code: codeMediaType, Detail: "Send the decision as it is, without Content-Encoding."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, &Error{Code: codeTooLarge, Detail: tooLarge}
	}
	if err != nil {
		return nil, invalid("The body broke off: send it whole.")
	}
	return body, nil
}
