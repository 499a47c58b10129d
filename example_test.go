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
