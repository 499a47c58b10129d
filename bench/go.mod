module github.com/retrysafe/retrysafe/bench

go 1.26.0

replace github.com/retrysafe/retrysafe => ../

require github.com/retrysafe/retrysafe v0.0.0

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
