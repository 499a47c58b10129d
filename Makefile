# What developers and CI run. It needs go, gcc (the race detector links with it), git and what scripts/test-services
# finds or installs, nothing else: the tools below run from their module, at a fixed version, and never enter go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME ?= 30s
CUTS ?= 5000
KILLS ?= 200
PARTS ?= 3

.SHELLFLAGS := -euc
.NOTPARALLEL:
.PHONY: help demo services test check fmt vet lint vuln race mutants bench-check proof bench fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 14

demo: ## retries against a payment API, with and without keys, in the terminal
	go run ./cmd/retrysafe demo --headless

services: ## what the tests need beside Go, found or installed
	@scripts/test-services

test: services ## every test
	go test ./...

check: fmt vet lint vuln test race bench-check mutants ## all that CI runs

fmt: ## every Go file is as gofmt writes it
	@files=$$(gofmt -l .); test -z "$$files" || { echo 'not formatted, run gofmt -w on:'; echo "$$files"; exit 1; }

vet: ## go vet
	go vet ./...

lint: ## staticcheck, here and in bench
	go run $(STATICCHECK) ./...
	cd bench && go run $(STATICCHECK) ./...

# Only this module: what bench compares with is in no program of ours. Without the database there is nothing to
# compare with, and a check that fails on a machine without network would only be switched off.
vuln: ## govulncheck, where its database can be reached
	@echo 'go run $(GOVULNCHECK) ./...'; \
	if out=$$(go run $(GOVULNCHECK) ./... 2>&1); then echo "$$out"; exit 0; fi; \
	case "$$out" in \
	*'fetching vulnerabilities:'*) echo 'vuln: the database of vulnerabilities could not be reached, nothing was checked' ;; \
	*) echo "$$out"; exit 1 ;; \
	esac

race: services ## every test under the race detector
	go test -race ./...

# A build tag keeps them out of `make test`: each is a build of its own, ten minutes in all. A check tries one in
# $(PARTS), which changes from commit to commit; proof tries all.
mutants: ## one in PARTS (3) deliberate faults, each found by the test it names
	go vet -tags mutants ./internal/mutants
	go test -tags mutants -count=1 -timeout 60m ./internal/mutants -of=$(PARTS) -part=$$(( 0x$$(git rev-parse --short=6 HEAD 2>/dev/null || echo 0) % $(PARTS) ))

bench-check: ## bench, a module of its own, builds and passes its tests
	cd bench && go vet ./... && go build ./... && go test ./...

# What check runs in short, at full length: about twenty minutes.
proof: ## power cuts, kill -9, the idle keep-alive race and the mutants in full
	go test -count=1 -timeout 20m -v -run '^TestPowerCut' ./store/pebblestore -cuts=$(CUTS)
	go test -count=1 -timeout 10m -v -run '^TestKill$$' ./cmd/retrysafe -kills=$(KILLS)
	go test -count=1 -timeout 10m -v -run '^TestIdleRace$$' ./gateway -posts=1500 -idle=3s
	go test -tags mutants -count=1 -timeout 60m ./internal/mutants

bench: ## the core's benchmarks, then side by side with others
	go test -run '^$$' -bench . -benchmem .
	cd bench && go run ./cmd/bench

# The default minimises each new input for up to a minute, which is all of a short run.
fuzz: ## every fuzz target for FUZZTIME (30s) each
	@grep -rEo --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Z_][A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file func; do \
		target=$${func#func }; \
		echo "fuzz $${file%/*} $$target"; \
		(cd "$${file%/*}" && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x .) </dev/null; \
	done
