package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestREADMEShell does what README.md shows in its shell blocks, in its order and with its words, but for the
// addresses. Its Go blocks are examples of the packages.
func TestREADMEShell(t *testing.T) {
	root := repository(t)
	readme := read(t, root, "README.md")
	makefile := read(t, root, "Makefile")
	wantDemoTable(t, readme, 120)

	t.Chdir(t.TempDir()) // the gateway leaves its token here, and the key commands find it
	api := startPayments(t)
	var l *lab
	var id string
	shown := strings.ReplaceAll(readme, "go run ./cmd/retrysafe ", "retrysafe ") // this very program
	follow(t, commands(shown, fenced), nil, []step{
		{"make demo", func(t *testing.T, _ []string) {
			wantRecipe(t, makefile, "demo", "go run ./cmd/retrysafe "+strings.Join(demoArgs, " ")) // which TestDemo runs
		}},
		{"retrysafe demo", func(t *testing.T, args []string) {
			if events := readEvents(t, startDemoPage(t, args[2:]...)); events.Orders != 120 {
				t.Errorf("the page: got %d orders, want 120", events.Orders)
			}
		}},
		{"make test", func(t *testing.T, _ []string) { wantRecipe(t, makefile, "test", "go test ./...") }},
		{"go run ./examples/payments/cmd/payments", func(t *testing.T, args []string) { // startPayments runs it
			if want := []string{"--listen", "127.0.0.1:9090", "--db", "payments.db"}; !slices.Equal(args[3:], want) {
				t.Errorf("got %q, want the flags %q", args[3:], want)
			}
		}},
		{"retrysafe gateway", func(t *testing.T, args []string) { l = startShown(t, args, api.url) }},
		{"curl", func(t *testing.T, args []string) {
			c := l.parseShown(t, args, "http://127.0.0.1:8080")
			first := l.curl(t, c)
			first.wantStatus(t, 201)
			l.curl(t, c).wantReplayOf(t, first)
			other := c
			other.body = strings.Replace(c.body, `"amount":1000`, `"amount":1001`, 1)
			l.curl(t, other).wantProblem(t, 422, "key-reused")
			api.breakOff(true)
			l.send(t, "POST", "/charges", "zq-key-killed", c.body).wantProblem(t, 502, "outcome-unknown")
			api.breakOff(false)
		}},
		{"retrysafe key list", func(t *testing.T, args []string) {
			s := l.keyShown(t, args)
			s.wantOut(t, `^unknown .* zq-key-killed +[0-9a-f]{64}$`)
			id = regexp.MustCompile(`[0-9a-f]{64}`).FindString(s.out)
		}},
		{"retrysafe key resolve", func(t *testing.T, args []string) {
			i := slices.Index(args, "ID")
			if i < 0 {
				t.Fatalf("%q names no ID", args)
			}
			args[i] = id
			l.keyShown(t, args).wantOut(t, `^state +free$`)
			l.send(t, "POST", "/charges", "zq-key-killed", charge(1)).wantStatus(t, 201)
		}},
	})
}

// TestPaymentsREADMEShell does the same with the commands of the example API, which stand there indented.
func TestPaymentsREADMEShell(t *testing.T) {
	root := repository(t)
	readme := read(t, root, "examples/payments/README.md")
	t.Chdir(t.TempDir())
	variables := map[string]string{}
	var api, l *lab
	follow(t, commands(readme, indented), variables, []step{
		{"go run", func(t *testing.T, args []string) { api = startShownPayments(t, root, args) }},
		{"curl", func(t *testing.T, args []string) {
			if gateway := variables["GATEWAY"]; gateway != "" {
				c := l.parseShown(t, args, gateway)
				first := l.curl(t, c)
				first.wantStatus(t, 201)
				l.curl(t, c).wantReplayOf(t, first)
				return
			}
			c := api.parseShown(t, args, "http://127.0.0.1:9090")
			if c.method == "GET" { // what was charged so far
				api.curl(t, c).wantBody(t, 200, `"count":2`)
				return
			}
			api.curl(t, c).wantBody(t, 201, `"slip":1,`)
			api.curl(t, c).wantBody(t, 201, `"slip":2,`)
		}},
		{"retrysafe gateway", func(t *testing.T, args []string) {
			l = startShown(t, args, api.url)
			variables["GATEWAY"] = l.url
		}},
	})
}

// A step is what a test does with the commands that begin so.
type step struct {
	begins string
	do     func(t *testing.T, args []string)
}

// follow does all commands in order. One that no step knows, and a step that no command needs, fail the test.
func follow(t *testing.T, commands []string, variables map[string]string, steps []step) {
	t.Helper()
	used := map[string]bool{}
	for _, command := range commands {
		i := slices.IndexFunc(steps, func(s step) bool {
			return strings.HasPrefix(command, s.begins+" ") || command == s.begins || s.begins == "curl -s http" && strings.HasPrefix(command, s.begins)
		})
		if i < 0 {
			t.Fatalf("the document shows a command that no test runs: %s", command)
		}
		args, err := words(command, variables)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		used[steps[i].begins] = true
		steps[i].do(t, args)
		if t.Failed() {
			t.Fatalf("this command of the document does not do what the document says: %s", command)
		}
	}
	for _, s := range steps {
		if !used[s.begins] {
			t.Errorf("the document shows no command that begins %q: delete its step", s.begins)
		}
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	indented = regexp.MustCompile(`(?m)((?:^ {4}\S?.*\n)+)`)
)

// commands returns the commands in the blocks of a document, one for each line that no backslash continues.
func commands(document string, block *regexp.Regexp) (list []string) {
	for _, b := range block.FindAllStringSubmatch(document, -1) {
		joined := strings.ReplaceAll(b[1], "\\\n", " ")
		for line := range strings.Lines(joined) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				list = append(list, line)
			}
		}
	}
	return list
}

// wantRecipe checks that a target of the Makefile runs one command.
func wantRecipe(t *testing.T, makefile, target, want string) {
	t.Helper()
	recipe := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(makefile)
	if recipe == nil || strings.TrimSpace(recipe[1]) != want {
		t.Errorf("make %s runs %q, want %q", target, recipe, want)
	}
}

// repository is the root of the module.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// startShown starts the gateway of a document, on free ports and in front of upstream.
func startShown(t *testing.T, args []string, upstream string) *lab {
	t.Helper()
	for flag, value := range map[string]string{"--upstream": upstream, "--listen": "127.0.0.1:0", "--admin": "127.0.0.1:0"} {
		if i := slices.Index(args, flag); i >= 0 {
			args[i+1] = value
			continue
		}
		args = append(args, flag, value)
	}
	return startBare(t, args[1:]...)
}

// startShownPayments builds and starts the program that go run names, with its arguments but for the port.
func startShownPayments(t *testing.T, root string, args []string) *lab {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "payments.exe")
	build := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, raceFlag()...), "-o", bin, args[2])...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	args = args[3:]
	if i := slices.Index(args, "--listen"); i >= 0 {
		args[i+1] = "127.0.0.1:0"
	}
	l := &lab{stderr: newTranscript(), client: newClient()}
	cmd := exec.CommandContext(t.Context(), bin, args...) // killed when the test ends
	cmd.Stderr = l.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	l.url = l.stderr.await(t, `^listening on (http://\S+)$`)[1]
	return l
}

// raceFlag builds as this test was built, so that all packages are there already.
func raceFlag() []string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

// parseShown reads a curl command to the address that the document says l has.
func (l *lab) parseShown(t *testing.T, args []string, address string) curl {
	t.Helper()
	c, err := parseCurl(args)
	path, ok := strings.CutPrefix(c.url, address)
	if err != nil || !ok {
		t.Fatalf("%q: %v, want a request to %s", args, err, address)
	}
	c.url = l.url + path
	return c
}

func (l *lab) curl(t *testing.T, c curl) answer {
	t.Helper()
	r := l.request(t, c.method, strings.TrimPrefix(c.url, l.url), "", c.body)
	r.Header = c.header.Clone()
	a, err := do(l.client, r)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return a
}

func (a answer) wantBody(t *testing.T, status int, part string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, part) {
		t.Errorf("got %v, want %d and %s", a, status, part)
	}
}

// keyShown runs a key command of a document against l. It finds the token by itself.
func (l *lab) keyShown(t *testing.T, args []string) said {
	t.Helper()
	var out, stderr bytes.Buffer
	status := run(t.Context(), append(args[1:], "--admin", l.admin), nil, &out, &stderr)
	return said{status, out.String(), stderr.String()}
}

// The shell parser must find every block, or commands would go untested in silence.
func TestCommands(t *testing.T) {
	const document = "text\n```sh\na b \\\n  c\n# note\nd\n```\n```\nno\n```\n    e \\\n      f\n\n    g\n\ntext `h`\n"
	if got, want := strings.Join(commands(document, fenced), "|"), "a b    c|d"; got != want {
		t.Errorf("fenced commands: got %q, want %q", got, want)
	}
	if got, want := strings.Join(commands(document, indented), "|"), "e        f|g"; got != want {
		t.Errorf("indented commands: got %q, want %q", got, want)
	}
}
