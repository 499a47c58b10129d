//go:build mutants

package mutants

// Faults of the HTTP door on the way in: key, scope, body, fingerprint.

const door = "idemhttp"

var httpMutants = []mutant{
	// The key.
	{
		fault: "of two key lines the first counts",
		seen:  "KP-1: grimurrash/test-task2#73",
		file:  "idemhttp/request.go",
		old:   `if len(lines) > 1 {`,
		new:   `if len(lines) > 99 {`,
		pkg:   door, test: "TestTwoKeyLinesAreRefused/different",
	},
	{
		fault: "a bare key with a comma is taken",
		seen:  "KP-2: grimurrash/test-task2#86",
		file:  "idemhttp/preset.go",
		old:   `return printable(field, ` + "`\",\\`" + `)`,
		new:   `return printable(field, ` + "`\"\\`" + `)`,
		pkg:   door, test: "TestKeySyntax/KP-2 comma, lenient",
	},
	{
		fault: "an empty key is taken for none",
		file:  "idemhttp/middleware.go",
		old:   `len(lines) == 0 && !inBody && !m.o.Required:`,
		new:   `(len(lines) == 0 || lines[0] == "") && !inBody && !m.o.Required:`,
		pkg:   door, test: "TestKeySyntax/KP-4 empty, lenient",
	},
	{
		fault: "keys that differ in case are one",
		seen:  "KP-5: qonto/idempotent-request",
		file:  "idemhttp/preset.go",
		old:   "\treturn field, \"\"\n}",
		new:   "\treturn strings.ToLower(field), \"\"\n}",
		pkg:   door, test: "TestKeyIdentity",
	},
	{
		fault: "a key has no limit",
		seen:  "KP-8: granit-fx/granit-dotnet#1151",
		file:  "idemhttp/request.go",
		old:   `len(key) > m.o.MaxKey`,
		new:   `len(key) > 1<<20`,
		pkg:   door, test: "TestKeySyntax/KP-8 64 KiB, lenient",
	},

	{
		fault: "of two members with one name the first is the key",
		seen:  "FP-7: pineforge-engine#135",
		file:  "internal/jsonptr/jsonptr.go",
		old:   `if !jsontext.Value(text).IsValid() {`,
		new:   `if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {`,
		pkg:   door, test: "TestKeySources/FP-7 a doubled member",
	},
	{
		fault: "an order that was charged cannot be refunded",
		file:  "idemhttp/source.go",
		old:   `return r.Method + " " + path + " " + key, false, m.checkKey(key)`,
		new:   `return r.Method + path[:0] + " " + key, false, m.checkKey(key)`,
		pkg:   door, test: "TestBusinessKeyBelongsToItsOperation",
	},
	{
		fault: "a number and its text are two orders",
		file:  "idemhttp/source.go",
		old:   `		return string(v), ""`,
		new:   `		return "#" + string(v), ""`,
		pkg:   door, test: "TestBusinessKeyBelongsToItsOperation",
	},

	// Quotas, suspicions, pages of other origins.
	{
		fault: "one tenant takes up what all may ask",
		seen:  "TN-8: the adcp rules",
		file:  "idemhttp/quota.go",
		old:   `	t = q.tenants[scope]`,
		new:   "\tscope = \"\"\n\tt = q.tenants[scope]",
		pkg:   door, test: "TestQuotaOfRate",
	},
	{
		fault: "a request that is over keeps its place",
		file:  "idemhttp/quota.go",
		old:   `	t.inFlight--`,
		new:   "",
		pkg:   door, test: "TestPlacesAreLeft",
	},
	{
		fault: "a retry is suspected of being another attempt",
		file:  "idemhttp/suspect.go",
		old:   `before.sum != sum || before.id == id ||`,
		new:   `before.sum != sum ||`,
		pkg:   door, test: "TestNewKeyForEachAttempt/the same key, after it was released",
	},
	{
		fault: "every page may read a replay",
		file:  "idemhttp/cors.go",
		old:   `	case slices.Contains(m.o.CORSOrigins, origin):`,
		new:   `	case true:`,
		pkg:   door, test: "TestExposedHeaders",
	},

	// What a guard is told.
	{
		fault: "a success that is said to be nothing runs again",
		file:  "idemhttp/outcome.go",
		old:   `case state == retrysafe.Free && status < 400:`,
		new:   `case false:`,
		pkg:   door, test: "TestOutcomesAreRefused",
	},
	{
		fault: "an answer that must not lie in a store does",
		seen:  "TN-7: buildinternet/uploads#834",
		file:  "idemhttp/keep.go",
		old:   `notKept = notKept || m.o.DropAnswers; notKept {`,
		new:   `notKept {`,
		pkg:   door, test: "TestDropAnswers",
	},
	{
		fault: "Stripe's keys are remembered",
		file:  "idemhttp/preset.go",
		old:   "\tif p == Stripe {\n\t\treturn 0\n",
		new:   "\tif false {\n\t\treturn 0\n",
		pkg:   door, test: "TestStripeForgets/by itself",
	},
	{
		fault: "what only a lenient reader takes for JSON passes for a request without a key",
		file:  "idemhttp/source.go",
		old:   `|| looksLikeJSON(body) {`,
		new:   `{`,
		pkg:   door, test: "TestKeySources/FP-7 a doubled member, and it does not say it is JSON",
	},

	// What the handler itself is asked.
	{
		fault: "that nothing happened this time frees the key of the first",
		file:  "idemhttp/call.go",
		old:   `	if out.State == retrysafe.Free {`,
		new:   `	if false {`,
		pkg:   door, test: "TestResendThatTellsNothing/it did nothing",
	},

	// The scope.
	{
		fault: "callers that nobody knows share a scope",
		seen:  "TN-2: KanishJebaMathewM/Truxify#2387",
		file:  "idemhttp/middleware.go",
		old:   "scope, err := m.scope(r)\n",
		new:   "scope, err := m.scope(r)\n\tif err != nil {\n\t\tscope, err = \"anonymous\", nil\n\t}\n",
		pkg:   door, test: "TestSituations/scope source missing",
	},

	// The body.
	{
		fault: "a body that broke off is taken for whole",
		file:  "idemhttp/request.go",
		old:   "case err == io.EOF:",
		new:   "case err != nil:",
		pkg:   door, test: "TestTruncatedUploadClaimsNothing/Content-Length",
	},
	{
		fault: "the limit of a body is believed from its length",
		seen:  "BE-1: paveg/hono-idempotency#79",
		file:  "idemhttp/request.go",
		old:   `case int64(len(b)) > m.o.MaxBody:`,
		new:   `case false:`,
		pkg:   door, test: "TestBodyLimit/one more in chunks",
	},
	{
		fault: "the handler's body is known to be empty",
		seen:  "GW-1: httputil.ReverseProxy",
		file:  "idemhttp/call.go",
		old:   `r.Body = &c.body`,
		new:   "r.Body = &c.body\n\tif c.body.r.Len() == 0 {\n\t\tr.Body = http.NoBody\n\t}",
		pkg:   door, test: "TestHandlersBodyCannotBeRewound",
	},

	{
		fault: "the bodies of all requests together have no bound",
		file:  "idemhttp/request.go",
		old:   "case !m.o.Bodies.take(int64(n)):",
		new:   "case !m.o.Bodies.take(0):",
		pkg:   door, test: "TestSituations/no room for more request bodies at once",
	},
	{
		fault: "a body that was refused keeps its room",
		file:  "idemhttp/request.go",
		old:   "\t\t\tm.o.Bodies.give(held)\n",
		new:   "",
		pkg:   door, test: "TestBodyStopsComing",
	},
	{
		fault: "a body that stops coming is waited for",
		file:  "idemhttp/request.go",
		old:   "h.control.SetReadDeadline(at)",
		new:   "h.control.SetReadDeadline(h.whole)",
		pkg:   door, test: "TestBodyStopsComing",
	},
	{
		fault: "what came in early data runs",
		file:  "idemhttp/middleware.go",
		old:   `case r.Header["Early-Data"] != nil:`,
		new:   `case r.Header.Get("Early-Data") == "1":`,
		pkg:   door, test: "TestSituations/sent in TLS early data (`Early-Data`)",
	},

	// The fingerprint.
	{
		fault: "the method is no part of the fingerprint",
		seen:  "FP-8: nensii21/devlink#1195",
		file:  "idemhttp/fingerprint.go",
		old:   `r.Method, r.URL.EscapedPath(), `,
		new:   `r.URL.EscapedPath(), `,
		pkg:   door, test: "TestFingerprint/FP-8 another method",
	},
	{
		fault: "the path is no part of the fingerprint",
		seen:  "FP-11: fullstackhero/docs#240",
		file:  "idemhttp/fingerprint.go",
		old:   `r.Method, r.URL.EscapedPath(), `,
		new:   `r.Method, `,
		pkg:   door, test: "TestFingerprint/FP-11 another member of a collection",
	},
	{
		fault: "the path is decoded before it is compared",
		file:  "idemhttp/fingerprint.go",
		old:   `r.Method, r.URL.EscapedPath(), `,
		new:   `r.Method, r.URL.Path, `,
		pkg:   door, test: "TestFingerprint/GW-7 an encoded slash",
	},
	{
		fault: "the query is no part of the fingerprint",
		seen:  "FP-10: LabsCrypt/remitlend#1680",
		file:  "idemhttp/fingerprint.go",
		old:   `r.URL.RawQuery, `,
		new:   ``,
		pkg:   door, test: "TestFingerprint/FP-10 another value in the query",
	},
	{
		fault: "the media type is no part of the fingerprint",
		file:  "idemhttp/fingerprint.go",
		old:   `, mediaType(r.Header["Content-Type"])}`,
		new:   `}`,
		pkg:   door, test: "TestFingerprint/another media type",
	},
	{
		fault: "a boundary made anew is another request",
		seen:  "FP-16: chatvector-ai/chatvector-ai#520",
		file:  "idemhttp/fingerprint.go",
		old:   `mediaType(r.Header["Content-Type"])}`,
		new:   `r.Header.Get("Content-Type")}`,
		pkg:   door, test: "TestFingerprint/FP-16 another boundary is no other type",
	},
	{
		fault: "the body is no part of the fingerprint",
		seen:  "FP-8: ArcadeData/arcadedb#5023",
		file:  "idemhttp/fingerprint.go",
		old:   "\th.h.Write(payload)\n",
		new:   "",
		pkg:   door, test: "TestFingerprint/FP-8 another byte of the body",
	},
	{
		fault: "the parts of a request run together",
		file:  "idemhttp/fingerprint.go",
		old:   `append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)`,
		new:   `append(binary.BigEndian.AppendUint64(b, uint64(len(part)))[:len(b)], part...)`,
		pkg:   door, test: "TestBordersBetweenThePartsOfARequest",
	},
	{
		fault: "numbers are rounded before they are compared",
		seen:  "FP-5: raystack/frontier#1884",
		file:  "idemhttp/fingerprint_canon.go",
		old:   "\tif v[0] != '\"' || ",
		new:   "\tif v[0] >= '0' && v[0] <= '9' && v.Canonicalize() != nil || v[0] != '\"' || ",
		pkg:   door, test: "TestCanonicalJSON/FP-5 integers that are one float64",
	},
	{
		fault: "of a doubled member either counts",
		seen:  "FP-7: pineforge-engine#135",
		file:  "idemhttp/fingerprint_canon.go",
		old:   "\tslices.SortFunc(members, byName)\n\tif !ascending(members, byName) {",
		new:   "\tslices.SortFunc(members, byName)\n\tif false {",
		pkg:   door, test: "TestCanonicalJSON/FP-7 a doubled member far inside, another space",
	},
	{
		fault: "what is no JSON is digested as if it were the form of some",
		file:  "idemhttp/fingerprint_json.go",
		old:   `return digest(asSent, r, body), nil`,
		new:   `return digest(asSent[:0]+tag, r, body), nil`,
		pkg:   door, test: "TestCanonicalJSON/what is no JSON looks like the form that is digested",
	},
	{
		fault: "what stands behind the parts of a form does not count",
		file:  "idemhttp/fingerprint_multipart.go",
		old:   "bytes.Count(body, closing) == 1 &&\n\t\tbytes.HasSuffix(bytes.TrimSuffix(body, []byte(\"\\r\\n\")), closing)",
		new:   "bytes.Contains(body, closing)",
		pkg:   door, test: "TestMultipart/something behind the parts",
	},
	{
		fault: "what a fingerprint function says goes to the log",
		file:  "idemhttp/middleware.go",
		old:   "\tif err != nil { // not logged: it may repeat what was sent\n",
		new:   "\tif err != nil {\n\t\tm.o.Logger.Error(\"no fingerprint\", \"err\", err)\n",
		pkg:   door, test: "TestFingerprintFails",
	},
}
