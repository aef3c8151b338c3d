// A client in Go: it sends one record by the gateway and reads it back from its leader.
//
//	make go-client                     # generates rpc/, builds build/go/client and tries it
//	build/go/client -bootstrap HOST:PORT -topic NAME -key K -value V
//
// All of it is in the .proto files of proto/pylog/rpc/v1 and in docs/other-languages.md.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"pylog.example/client/rpc"
)

const (
	batchHeaderBytes = 61
	codecBits        = 0x07
	controlBit       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one record of a batch.
type Record struct {
	Offset     int64
	Key, Value []byte // nil: none
}

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "the gateway, or a broker")
	topic := flag.String("topic", "", "a topic that exists")
	key := flag.String("key", "k", "the record's key")
	value := flag.String("value", "v", "the record's value")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, *bootstrap, *topic, []byte(*key), []byte(*value)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, bootstrap, topic string, key, value []byte) error {
	first, err := dial(bootstrap)
	if err != nil {
		return err
	}
	defer first.Close()
	metadata, err := rpc.NewLogClient(first).Metadata(ctx, &rpc.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	// Records are sent by the gateway, which finds partition and leader; all brokers know where it is.
	gateway, err := dial(address(metadata.Controller))
	if err != nil {
		return err
	}
	defer gateway.Close()
	sent, err := send(ctx, gateway, topic, key, value)
	if err != nil {
		return err
	}
	fmt.Printf("sent to partition %d at offset %d\n", sent.Partition, sent.Offset)
	leader, err := leaderOf(metadata, sent.Partition)
	if err != nil {
		return err
	}
	broker, err := dial(leader)
	if err != nil {
		return err
	}
	defer broker.Close()
	record, err := read(ctx, broker, topic, sent.Partition, sent.Offset)
	if err != nil {
		return err
	}
	fmt.Printf("read (%s, %s) from partition %d at offset %d\n",
		record.Key, record.Value, sent.Partition, record.Offset)
	return nil
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func address(at *rpc.Endpoint) string {
	return fmt.Sprintf("%s:%d", at.GetHost(), at.GetPort())
}

func failed(what string, fault *rpc.Error) error {
	if fault.GetCode() == 0 {
		return nil
	}
	return fmt.Errorf("%s: error %d: %s", what, fault.Code, fault.Message)
}

func send(
	ctx context.Context, gateway *grpc.ClientConn, topic string, key, value []byte,
) (*rpc.SentRecord, error) {
	answer, err := rpc.NewRecordsClient(gateway).Send(ctx, &rpc.SendRequest{
		Topic:    topic,
		Records:  []*rpc.RecordToSend{{Key: key, Value: value}},
		ClientId: "go-example",
	})
	if err != nil {
		return nil, err
	}
	sent := answer.Records[0]
	return sent, failed("send", sent.Error)
}

func leaderOf(metadata *rpc.MetadataResponse, partition int32) (string, error) {
	topic := metadata.Topics[0]
	if err := failed("metadata", topic.Error); err != nil {
		return "", err
	}
	for _, each := range topic.Partitions {
		for _, broker := range metadata.Brokers {
			if each.Partition == partition && each.Leader == broker.Id {
				return address(broker.Endpoint), nil
			}
		}
	}
	return "", fmt.Errorf("partition %d has no leader now", partition)
}

func read(
	ctx context.Context, leader *grpc.ClientConn, topic string, partition int32, offset int64,
) (*Record, error) {
	answer, err := rpc.NewLogClient(leader).Fetch(ctx, &rpc.FetchRequest{
		MaxWaitMs: 5_000, MinBytes: 1, MaxBytes: 1 << 20, ClientId: "go-example",
		Partitions: []*rpc.PartitionFetch{{
			Topic: topic, Partition: partition, FetchOffset: offset, MaxBytes: 1 << 20,
			CurrentLeaderEpoch: -1, LastFetchedEpoch: -1,
		}},
	})
	if err != nil {
		return nil, err
	}
	data := answer.Partitions[0]
	if err := failed("fetch", data.Error); err != nil {
		return nil, err
	}
	records, err := decode(data.Batches)
	if err != nil {
		return nil, err
	}
	for _, record := range records { // the first batch may begin before the offset
		if record.Offset == offset {
			return &record, nil
		}
	}
	return nil, fmt.Errorf("offset %d is not there", offset)
}

// decode gives the records of whole batches, as docs/other-languages.md describes them.
func decode(batches []byte) ([]Record, error) {
	var records []Record
	for len(batches) >= batchHeaderBytes {
		size := 12 + int(binary.BigEndian.Uint32(batches[8:]))
		if size < batchHeaderBytes || size > len(batches) {
			return nil, errors.New("a batch is cut short")
		}
		batch := batches[:size]
		batches = batches[size:]
		if crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
			return nil, errors.New("the CRC of a batch is wrong")
		}
		attributes := binary.BigEndian.Uint16(batch[21:])
		if attributes&controlBit != 0 {
			continue // the end of a transaction
		}
		if attributes&codecBits != 0 {
			return nil, fmt.Errorf("codec %d: this example reads plain batches", attributes&codecBits)
		}
		base := int64(binary.BigEndian.Uint64(batch))
		body := reader{bytes: batch[batchHeaderBytes:]}
		for range binary.BigEndian.Uint32(batch[57:]) {
			row := reader{bytes: body.take(body.varint())}
			row.take(1)  // attributes
			row.varint() // the timestamp, behind the batch's
			offset := base + row.varint()
			record := Record{Offset: offset, Key: row.take(row.varint()), Value: row.take(row.varint())}
			if body.short || row.short { // headers follow, which this example passes over
				return nil, errors.New("a record is cut short")
			}
			records = append(records, record)
		}
	}
	return records, nil
}

// reader takes fields off the front of bytes; it is short once there were not enough.
type reader struct {
	bytes []byte
	short bool
}

func (r *reader) varint() int64 {
	value, size := binary.Varint(r.bytes) // zigzag, as protobuf's sint64
	if size <= 0 {
		r.short = true
		return 0
	}
	r.bytes = r.bytes[size:]
	return value
}

func (r *reader) take(size int64) []byte {
	if size < 0 { // -1: none
		return nil
	}
	if size > int64(len(r.bytes)) {
		r.short = true
		return nil
	}
	taken := r.bytes[:size]
	r.bytes = r.bytes[size:]
	return taken
}
