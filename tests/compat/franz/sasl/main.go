// Command sasl logs in to a broker with each mechanism that franz-go has, and writes and reads with
// it. Like its sibling it prints a line of JSON per step.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	bootstrap, topic, user, password, token := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: password}.AsSha512Mechanism(),
	}
	if token != "" {
		mechanisms["OAUTHBEARER"] = oauth.Auth{Token: token}.AsMechanism()
	}
	for name, mechanism := range mechanisms {
		line := map[string]string{"step": name}
		if err := roundTrip(bootstrap, topic, name, mechanism); err != nil {
			line["error"] = err.Error()
		}
		text, _ := json.Marshal(line)
		fmt.Println(string(text))
	}
}

// roundTrip writes one record and reads it back, through one client that logged in.
func roundTrip(bootstrap, topic, value string, mechanism sasl.Mechanism) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.SASL(mechanism))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	sent, err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).First()
	if err != nil {
		return err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {sent.Partition: kgo.NewOffset().At(sent.Offset)},
	})
	fetched := client.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		return err
	}
	if got := string(fetched.Records()[0].Value); got != value {
		return fmt.Errorf("wrote %q and read %q", value, got)
	}
	return nil
}
