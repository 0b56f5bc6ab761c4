import { Counter, Gauge, Registry } from 'prom-client'
import type { Switchboard } from './switchboard.js'

/** Counters in the text format of Prometheus, without routes and addresses. */
export function relayMetrics (board: Switchboard, connections: () => number): () => Promise<string> {
  const registers = [new Registry()]
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({ name: `svc_relay_${name}`, help, registers, collect () { this.set(read()) } })
  }
  gauge('connections', 'Connections of every kind.', connections)
  gauge('nodes', 'Nodes that have claimed their route.', () => board.counts.nodes)
  gauge('devices', 'Devices that are joined with a node.', () => board.counts.devices)
  gauge('waiting', 'Devices for which a node has yet to come.', () => board.counts.waiting)
  gauge('queued_bytes', 'Bytes that wait to be taken.', () => board.traffic.queued)
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name: `svc_relay_${name}_total`, help, registers,
      collect () {
        this.reset()
        this.inc(read())
      }
    })
  }
  counter('messages', 'Messages passed on, both ways.', () => board.traffic.messages)
  counter('bytes', 'Bytes passed on, both ways.', () => board.traffic.bytes)
  new Counter({
    name: 'svc_relay_refused_total', help: 'Connections that the relay closed, by reason.',
    labelNames: ['why'], registers,
    collect () {
      this.reset()
      for (const [why, count] of Object.entries(board.refused)) this.inc({ why }, count)
    }
  })
  return async () => await registers[0]!.metrics()
}
