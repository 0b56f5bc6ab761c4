import type { Rates } from '../../../kernel/index.js'
import type { MachineIo } from './io.js'

export type Traffic = ReadonlyMap<string, { rx: number, tx: number }>

export async function readTraffic ({ platform, read, ask, addresses }: MachineIo): Promise<Traffic> {
  if (platform === 'linux') return parseNetDev(await read('/proc/net/dev'))
  return trafficOf(await ask('networkStats', Object.keys(addresses()).join(',')))
}

/** Byte counters by interface from /proc/net/dev: field 1 after the colon is received, field 9 sent. Pure. */
export function parseNetDev (content: string): Traffic {
  return new Map([...content.matchAll(/^ *([^\s|]+): *(\d[\d ]*)$/gm)].flatMap(([, name, fields]) => {
    const [rx, , , , , , , , tx] = fields!.trim().split(/\s+/).map(Number)
    return rx === undefined || tx === undefined ? [] : [[name!, { rx, tx }] as const]
  }))
}

/** Counters from systeminformation's `networkStats()`; entries without numbers are skipped. Pure. */
export function trafficOf (answer: unknown): Traffic {
  const list: unknown[] = Array.isArray(answer) ? answer : []
  return new Map((list as Record<string, unknown>[]).flatMap(({ iface, rx_bytes: rx, tx_bytes: tx }) =>
    typeof iface === 'string' && Number.isFinite(rx) && Number.isFinite(tx)
      ? [[iface, { rx: rx as number, tx: tx as number }] as const]
      : []))
}

/** Bytes per second of one interface between two readings `ms` apart. Pure. */
export function ratesOf (name: string, before: Traffic, after: Traffic, ms: number): Rates {
  const [a, b] = [before.get(name), after.get(name)]
  const rate = (from: number, to: number): number | null =>
    ms > 0 && to >= from ? Math.round((to - from) / ms * 1000) : null
  if (a === undefined || b === undefined) return { rxBytesPerSecond: null, txBytesPerSecond: null }
  return { rxBytesPerSecond: rate(a.rx, b.rx), txBytesPerSecond: rate(a.tx, b.tx) }
}
