package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

// A backup is asked for with a new, absolute folder; every other wish is refused before the store is asked.
func TestBackup(t *testing.T) {
	backups := map[string]error{"/new": nil, "/there": fmt.Errorf("x: %w", retrysafe.ErrInvalid), "/broken": errors.New("zq-secret of the disk")}
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
		asked      string
	}{
		{"a new folder", `{"dir":"/new"}`, 200, "", "/new"},
		{"one that exists", `{"dir":"/there"}`, 400, "request-invalid", "/there"},
		{"a disk that fails", `{"dir":"/broken"}`, 500, "backup-failed", "/broken"},
		{"a relative one", `{"dir":"new"}`, 400, "request-invalid", ""},
		{"none", `{}`, 400, "request-invalid", ""},
		{"NUL in it", `{"dir":"/a\u0000b"}`, 400, "request-invalid", ""},
		{"another field", `{"dir":"/new","force":true}`, 400, "request-invalid", ""},
		{"no JSON", `dir=/new`, 400, "request-invalid", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := ""
			l := newLab(t, nil)
			l.API = newAPI(t, l.executor, &admin.Options{Token: token, Backup: func(_ context.Context, dir string) error {
				asked = dir
				return backups[dir]
			}})
			got := l.post(t, "/api/backup", tt.body)
			if got.Code != tt.status || asked != tt.asked {
				t.Errorf("got status %d, the store was asked for %q, want %d and %q; body %s", got.Code, asked, tt.status, tt.asked, got.Body)
			}
			if tt.code != "" {
				wantRefused(t, got, tt.status, tt.code)
			}
		})
	}
}

// A store that cannot be backed up says so.
func TestBackupUnsupported(t *testing.T) {
	l := newLab(t, nil)
	wantRefused(t, l.post(t, "/api/backup", `{"dir":"/new"}`), http.StatusNotImplemented, "backup-unsupported")
}
