//go:build mutants

package mutants

// Faults of the gateway: a second send, nothing sent against may have acted, and what it believes of its peers.

const proxy = "gateway"

var gatewayMutants = []mutant{
	// One send.
	{
		fault: "the key goes upstream under a name that net/http takes for leave to send again",
		seen:  "GW-1: httputil.ReverseProxy",
		file:  "gateway/forward.go",
		old:   "delete(h, name)\n\t\t\th[strings.ToLower(name)] = lines",
		new:   "h[name] = lines",
		pkg:   proxy, test: "TestOneSend/empty, with a key",
	},
	{
		fault: "net/http can rewind the body",
		seen:  "GW-1: httputil.ReverseProxy",
		file:  "gateway/forward.go",
		old:   `Body: once{r.Body}, `,
		new:   `Body: once{r.Body}, GetBody: func() (io.ReadCloser, error) { return r.Body, nil }, `,
		pkg:   proxy, test: "TestEachDefenceAgainstASecondSend",
	},
	{
		fault: "the Connection header has the key removed on its way",
		seen:  "traefik CVE-2024-45410",
		file:  "gateway/forward.go",
		old:   `if len(keys[i]) > 0 {`,
		new:   `if false {`,
		pkg:   proxy, test: "TestConnectionNamesTheKey",
	},

	// Nothing sent, or may have acted.
	{
		fault: "nothing was sent, but it may still leave",
		file:  "gateway/conn.go",
		old:   "\tif c.written == mark {\n\t\tc.sealed = true\n\t}\n\treturn c.sealed",
		new:   "\treturn c.written == mark",
		pkg:   proxy, test: "TestSeal/nothing was written",
	},
	{
		fault: "what left on an earlier connection counts for nothing",
		file:  "gateway/conn.go",
		old:   "\tif a.lost || a.conn != nil && !a.conn.seal(a.mark) {\n\t\ta.lost = true\n\t\treturn\n\t}\n",
		new:   "",
		pkg:   proxy, test: "TestNothingSentOverTwoConnections",
	},
	{
		fault: "a connection that does not count has sent nothing",
		file:  "gateway/conn.go",
		old:   "\tif a.lost {\n\t\treturn false\n\t}\n",
		new:   "",
		pkg:   proxy, test: "TestNothingSent/one that does not count",
	},
	{
		fault: "what earlier requests sent counts for this one",
		file:  "gateway/conn.go",
		old:   `a.conn, a.mark = counted, counted.count()`,
		new:   `a.conn, a.mark = counted, 0`,
		pkg:   proxy, test: "TestDeadIdleConnection/small",
	},
	{
		fault: "an upstream that broke off has done nothing",
		file:  "gateway/forward.go",
		old:   `if !sent.nothingSent() {`,
		new:   `if false {`,
		pkg:   proxy, test: "TestUpstreamMayHaveActed/closed without an answer, small request",
	},
	{
		fault: "an upstream that took too long has done nothing",
		file:  "gateway/forward.go",
		old:   `idemhttp.MayHaveActed(ctx, errorKind(ctx, err))`,
		new:   `idemhttp.DidNothing(ctx)`,
		pkg:   proxy, test: "TestUpstreamMayHaveActed/no answer in time, small request",
	},
	{
		fault: "the gateway's own word on a lost answer is kept as the answer",
		seen:  "OU-1: codatio/codat-docs#1842",
		file:  "gateway/forward.go",
		old:   "\tidemhttp.MayHaveActed(ctx, errorKind(ctx, err))\n",
		new:   "",
		pkg:   proxy, test: "TestUpstreamMayHaveActed/reset without an answer, small request",
	},
	{
		fault: "the gateway's own word on an upstream that is down is kept as the answer",
		seen:  "OU-1: codatio/codat-docs#1842",
		file:  "gateway/forward.go",
		old:   "\tidemhttp.DidNothing(ctx)\n",
		new:   "",
		pkg:   proxy, test: "TestDialIsRefused",
	},
	{
		fault: "an answer that breaks off is kept as whole",
		seen:  "ST-4: Comfy-Org/ComfyUI#16220",
		file:  "gateway/forward.go",
		old:   "err != nil && err != io.EOF {\n\t\t\tg.middleware.Share",
		new:   "err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {\n\t\t\tg.middleware.Share",
		pkg:   proxy, test: "TestUpstreamMayHaveActed/shorter than its length, small request",
	},

	// What goes through.
	{
		fault: "an encoded slash goes upstream as a slash",
		file:  "gateway/forward.go",
		old:   `u.Path, u.RawPath = base+in.Path, raw+in.EscapedPath()`,
		new:   `u.Path, u.RawPath = base+in.Path, raw`,
		pkg:   proxy, test: "TestTarget/an encoded slash, guarded",
	},
	{
		fault: "an answer is kept in a coding that another caller cannot read",
		seen:  "HR-8: chriguschneider/hass-meteoswiss-radar#137",
		file:  "gateway/forward.go",
		old:   `out.Header.Set("Accept-Encoding", "identity")`,
		new:   ``,
		pkg:   proxy, test: "TestAcceptEncoding/guarded",
	},
	{
		fault: "a header of the connection with the upstream goes to the caller",
		file:  "gateway/forward.go",
		old:   "\tremoveHopByHop(res.Header)\n",
		new:   "",
		pkg:   proxy, test: "TestAnswerHeaders",
	},

	// Slow and hostile callers.
	{
		fault: "a caller who never reads holds its connection for ever",
		file:  "gateway/pace.go",
		old:   "p.control.SetWriteDeadline(p.next())",
		new:   "p.control.SetWriteDeadline(p.whole)",
		pkg:   proxy, test: "TestCallerWhoNeverReads/an answer that streams",
	},
	{
		fault: "the deadline of a write stands while there is nothing to send",
		file:  "gateway/pace.go",
		old:   "\t\tp.control.SetWriteDeadline(p.whole)\n",
		new:   "",
		pkg:   proxy, test: "TestStreamMayRest/HTTP 2",
	},
	{
		fault: "a stream is read to its end for a caller who is gone",
		file:  "gateway/pace.go",
		old:   "defer context.AfterFunc(p.r.Context(), gone)()",
		new:   "defer context.AfterFunc(context.Background(), gone)()",
		pkg:   proxy, test: "TestStreamEndsWithItsCaller/a silent one",
	},
	{
		fault: "a caller who hangs up ends its request before the answer is recorded",
		file:  "gateway/forward.go",
		old:   "\tidle := time.AfterFunc(",
		new:   "\tdefer context.AfterFunc(pacedOf(w).r.Context(), func() { cancel(errCallerGone) })()\n\tidle := time.AfterFunc(",
		pkg:   proxy, test: "TestAnswerIsReadForACallerWhoIsGone",
	},
	{
		fault: "an upstream may flood a caller with informational answers",
		file:  "gateway/pace.go",
		old:   "p.informed > maxInformed || ",
		new:   "",
		pkg:   proxy, test: "TestFloodOfInformationalAnswers",
	},
	{
		fault: "a gateway asks itself until there are no sockets left",
		file:  "gateway/via.go",
		old:   "len(by) > 1 && strings.EqualFold(by[1], g.pseudonym)",
		new:   "len(by) > 9",
		pkg:   proxy, test: "TestLoopEnds/one gateway",
	},

	// Whom it believes.
	{
		fault: "anybody may say whose request it is",
		file:  "gateway/gateway.go",
		old:   `case !fromTrusted(r, trusted):`,
		new:   `case false && !fromTrusted(r, trusted):`,
		pkg:   proxy, test: "TestHeaderScope/a peer that is not trusted",
	},
	{
		fault: "of two scope headers the first counts",
		file:  "gateway/gateway.go",
		old:   `len(values) != 1 || values[0] == ""`,
		new:   `len(values) == 0 || values[0] == ""`,
		pkg:   proxy, test: "TestHeaderScope/doubled",
	},
	{
		fault: "a scope header is believed that the Connection header names",
		seen:  "traefik CVE-2026-29054",
		file:  "gateway/gateway.go",
		old:   `case answer.Named(r.Header["Connection"], name):`,
		new:   `case false && answer.Named(r.Header["Connection"], name):`,
		pkg:   proxy, test: "TestHeaderScope/named by Connection",
	},
	{
		fault: "anybody may say who sent the request",
		seen:  "Fiber CVE-2026-45045",
		file:  "gateway/forward.go",
		old:   `if !trusted {`,
		new:   `if false {`,
		pkg:   proxy, test: "TestForwardedHeaders/from a peer that is not trusted/guarded",
	},
}
