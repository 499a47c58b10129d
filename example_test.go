package retrysafe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/store/memstore"
)

// sendInvoice stands for something that must not happen twice.
func sendInvoice(_ context.Context, invoice []byte) ([]byte, error) {
	fmt.Printf("sent %s\n", invoice)
	return []byte("mail-1"), nil
}

func ExampleExecutor_Do() {
	ctx := context.Background()
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	invoice := []byte("the invoice of November")
	for range 3 { // a caller that never hears an answer
		key := retrysafe.Key{Scope: "tenant-7", Name: "invoice-2026-11"}
		result, err := executor.Do(ctx, key, retrysafe.FingerprintOf(invoice), func(ctx context.Context) ([]byte, error) {
			return sendInvoice(ctx, invoice)
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %v\n", result.Answer, result.Verdict)
	}
	// Output:
	// sent the invoice of November
	// mail-1 won
	// mail-1 replay
	// mail-1 replay
}

// A process that dies while it renders leaves a key that the next attempt may claim. One that dies after Act leaves an
// unknown outcome.
func ExampleAct() {
	executor, err := retrysafe.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	policy := executor.Policy()
	policy.TwoStep = true
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "tenant-7", Name: "invoice-2026-11"}, Policy: &policy}
	result, err := executor.Execute(context.Background(), request, func(ctx context.Context) retrysafe.Outcome {
		invoice := []byte("the invoice of November") // rendered at length, to no outside effect
		if err := retrysafe.Act(ctx); err != nil {
			return retrysafe.Outcome{State: retrysafe.Free} // nothing happened
		}
		answer, err := sendInvoice(ctx, invoice)
		if err != nil {
			return retrysafe.Outcome{Reason: "the mail server broke off"}
		}
		return retrysafe.Outcome{State: retrysafe.Completed, Answer: answer}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %v\n", result.Answer, result.State)
	// Output:
	// sent the invoice of November
	// mail-1 completed
}
