// Command secure proves to brokers who it is, in each way that franz-go has, and then does what
// applications do: it writes, reads as a member of a group, and commits a transaction.
//
// It reads a JSON list of cases on stdin, takes all of them at once, and prints a line of JSON for
// each: its name and, if it failed, why. A case that is to be refused fails.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const secondsMax = 30 * time.Second

// proof is how somebody shows at a listener who they are.
type proof struct {
	Name        string // of the case, and of all that it makes at the broker
	Servers     string
	Topic       string
	CA          string // a file, like Certificate, which holds a key too
	Certificate string
	Mechanism   string
	User        string
	Password    string
	Token       string
}

func main() {
	var cases []proof
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	out := json.NewEncoder(os.Stdout)
	var printing sync.Mutex
	var all sync.WaitGroup
	for _, each := range cases {
		all.Go(func() {
			line := map[string]string{"step": each.Name}
			if err := each.run(); err != nil {
				line["error"] = err.Error()
			}
			printing.Lock()
			defer printing.Unlock()
			if err := out.Encode(line); err != nil {
				panic(err)
			}
		})
	}
	all.Wait()
}

func (p proof) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), secondsMax)
	defer cancel()
	if err := p.transact(ctx); err != nil {
		return err
	}
	return p.readAsMember(ctx)
}

func (p proof) client(more ...kgo.Opt) (*kgo.Client, error) {
	config, err := p.tls()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(p.Servers), kgo.DialTLSConfig(config)}
	if mechanism := p.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return kgo.NewClient(append(options, more...)...)
}

func (p proof) tls() (*tls.Config, error) {
	authority, err := os.ReadFile(p.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", p.CA)
	}
	if p.Certificate != "" {
		own, err := tls.LoadX509KeyPair(p.Certificate, p.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func (p proof) mechanism() sasl.Mechanism {
	switch p.Mechanism {
	case "PLAIN":
		return plain.Auth{User: p.User, Pass: p.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: p.User, Pass: p.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: p.User, Pass: p.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: p.Token}.AsMechanism()
	}
	return nil
}

// transact writes a record in a transaction, after one in another that is taken back.
func (p proof) transact(ctx context.Context) error {
	client, err := p.client(kgo.TransactionalID(p.Name), kgo.DefaultProduceTopic(p.Topic))
	if err != nil {
		return err
	}
	defer client.Close()
	// Asked for by itself, because producing tries again for long where this does not.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	for _, ending := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		value := fmt.Sprintf("%s %v", p.Name, ending)
		if err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, ending); err != nil {
			return err
		}
	}
	return nil
}

func (p proof) readAsMember(ctx context.Context) error {
	client, err := p.client(
		kgo.ConsumerGroup(p.Name),
		kgo.ConsumeTopics(p.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	wanted := fmt.Sprintf("%s %v", p.Name, kgo.TryCommit)
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			switch string(record.Value) {
			case wanted:
				return client.CommitRecords(ctx, record)
			case fmt.Sprintf("%s %v", p.Name, kgo.TryAbort):
				return errors.New("what was taken back is there")
			}
		}
	}
	return ctx.Err()
}
