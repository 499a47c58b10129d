// Package mutants breaks the product on purpose and expects its tests to notice. A mutant is one fault, most of
// them seen in a real system, put into one file; it names the test that must fail because of it. A test that
// passes whatever the code does is found here, and so is a promise that no test holds.
//
// The package has no code of its own beside its tests. The faults are tables, a file for each subject; a new
// promise deserves a row. Source files are never touched: the go command reads a broken copy in their place.
//
// Each fault is a build of its own, so the tests stand behind the build tag mutants, and `make mutants` runs them:
//
//	go test -tags mutants -v ./internal/mutants   # with a table of the faults and what found them
package mutants
