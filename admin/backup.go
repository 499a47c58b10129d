package admin

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A Backup says where a copy of the store stands.
type Backup struct {
	Dir     string  `json:"dir"` // a folder on the machine of the process; absolute, and new
	Seconds float64 `json:"seconds,omitempty"`
}

// maxBackup bounds the body that asks for a backup, in bytes.
const maxBackup = 16 << 10

// backupTimeout bounds one backup.
const backupTimeout = time.Hour

// backup writes a copy of the store. A caller who hangs up ends it no more than a decision.
func (a *API) backup(r *http.Request) (any, error) {
	body, err := jsonBody(r, maxBackup, "A path fits into 16 KiB: send nothing else.")
	if err != nil {
		return nil, err
	}
	var b Backup
	if err := readFields(body, []field{{"dir", &b.Dir, "text"}}); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(b.Dir) || strings.ContainsRune(b.Dir, 0) {
		return nil, invalid("Field dir: want an absolute path, of a folder that does not exist yet.")
	}
	if a.o.Backup == nil {
		return nil, &Error{Code: codeNoBackup, Detail: "Back it up with the tools of the database it stands in; what is in memory only cannot be kept."}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), backupTimeout)
	defer cancel()
	began := time.Now()
	if err := a.o.Backup(ctx, b.Dir); errors.Is(err, retrysafe.ErrInvalid) {
		return nil, invalid("Field dir: something stands there already, or nothing can: want a folder that does not exist yet.")
	} else if err != nil {
		a.o.Logger.Error("backup failed", "dir", b.Dir, "err", err)
		return nil, &Error{Code: codeBackup, Detail: "The log says why. What stands in the folder is no backup: delete it."}
	}
	b.Seconds = time.Since(began).Seconds()
	a.o.Logger.Info("backup made", "dir", b.Dir, "seconds", b.Seconds)
	return b, nil
}
