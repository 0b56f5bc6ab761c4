import { Counter, Gauge, Registry } from 'prom-client'
import type { RelayRouter } from './router.js'

/** Metrics in the Prometheus text format; they contain no routes and no addresses. */
export function relayMetrics (router: RelayRouter, connections: () => number): () => Promise<string> {
  const registers = [new Registry()]
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({ name: `svc_relay_${name}`, help, registers, collect () { this.set(read()) } })
  }
  gauge('connections', 'Open connections of every kind.', connections)
  gauge('nodes', 'Nodes that have claimed their route.', () => router.counts.nodes)
  gauge('devices', 'Devices that are connected with a node.', () => router.counts.devices)
  gauge('waiting', 'Devices that wait for their node.', () => router.counts.waiting)
  gauge('queued_bytes', 'Queued bytes.', () => router.traffic.queued)
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name: `svc_relay_${name}_total`, help, registers,
      collect () {
        this.reset()
        this.inc(read())
      }
    })
  }
  counter('messages', 'Forwarded messages, both directions.', () => router.traffic.messages)
  counter('bytes', 'Forwarded bytes, both directions.', () => router.traffic.bytes)
  new Counter({
    name: 'svc_relay_refused_total', help: 'Connections that the relay closed, by reason.',
    labelNames: ['why'], registers,
    collect () {
      this.reset()
      for (const [why, count] of Object.entries(router.refused)) this.inc({ why }, count)
    }
  })
  return async () => await registers[0]!.metrics()
}
