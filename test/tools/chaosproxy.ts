/** A TCP proxy inside the test's process that disturbs its traffic, each direction by its own rule. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { Flow, type Rule } from './flow.js'

export type { Rule } from './flow.js'

/** Direction of traffic; `up` is from the client to the target. */
export type Direction = 'up' | 'down'
export type Directions = Direction | 'both'

export interface ProxyOptions {
  target: { host: string, port: number }
  /** Port to listen on; any free one if absent. */
  port?: number
  host?: string
  /** Names the client of a connection, so that it can have separate rules. Called once per connection. */
  from?: (client: { port: number, address: string }) => string | undefined
}

/** A connection through the proxy. */
interface Line { from: string, client: Socket, server: Socket, up: Flow, down: Flow }

export interface ChaosProxy {
  readonly host: string
  readonly port: number
  /** `host:port`, as settings expect it. */
  readonly address: string
  readonly open: number
  /** Connections accepted so far, and bytes received from both ends. */
  readonly seen: { connections: number, up: number, down: number }
  /** Target of future connections. */
  retarget (target: { host: string, port: number }): void
  /**
   * Adds to the rule of one direction or both, for all connections or those of one name; applies to open and
   * future connections.
   */
  shape (rule: Rule, direction?: Directions, from?: string): void
  /** A black hole: traffic is neither delivered nor refused; held bytes arrive after `heal`. */
  cut (from?: string, direction?: Directions): void
  /** Removes every rule for all connections, or those for one name; forwards the held bytes. */
  heal (from?: string): void
  /** Closes open connections with RST at both ends; returns their number. */
  reset (from?: string): number
  /** The target disappears silently, so the client's end stays open without traffic. */
  halfOpen (from?: string): number
  /** Inverts the n-th byte (from 0) that passes from now on in open connections. */
  corrupt (direction: Direction, n?: number, from?: string): number
  /** Drops the next `bytes` in open connections and forwards the rest. */
  drop (direction: Direction, bytes: number, from?: string): number
  /** Whether new connections are closed with RST immediately. */
  refuse (on: boolean): void
  close (): Promise<void>
}

const EVERYONE = '*'
const both = (direction: Directions): readonly Direction[] => direction === 'both'
  ? ['up', 'down'] : [direction]

/** Rules by name and direction; a rule for one name overrides a rule for all. */
class Rules {
  readonly #rules = new Map<string, Rule>()

  add (rule: Rule, directions: Directions, from: string): void {
    for (const direction of both(directions)) {
      const key = `${from} ${direction}`
      this.#rules.set(key, { ...this.#rules.get(key), ...rule })
    }
  }

  remove (from: string | undefined): void {
    if (from === undefined) this.#rules.clear()
    else for (const direction of both('both')) this.#rules.delete(`${from} ${direction}`)
  }

  of (from: string, direction: Direction): Rule {
    return { ...this.#rules.get(`${EVERYONE} ${direction}`), ...this.#rules.get(`${from} ${direction}`) }
  }
}

/** Closes a socket with RST. */
function abort (socket: Socket): void {
  if (socket.destroyed) return
  if (socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}

/** Starts a proxy on loopback. Rejects as `listen` does. */
export async function chaosProxy (options: ProxyOptions): Promise<ChaosProxy> {
  const rules = new Rules()
  const lines = new Set<Line>()
  const seen = { connections: 0, up: 0, down: 0 }
  let target = options.target
  let refusing = false

  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
    client.on('error', () => {})
    if (refusing) { abort(client); return }
    seen.connections++
    const from = options.from?.({ port: client.remotePort ?? 0, address: client.remoteAddress ?? '' }) ?? ''
    const line = join(client, connect({ ...target, allowHalfOpen: true, noDelay: true }), from, rules, seen)
    lines.add(line)
    whenOver(line, () => { lines.delete(line) })
  })
  await listening(server, options)
  const { address, port } = server.address() as AddressInfo
  const chosen = (from?: string): Line[] => [...lines].filter((line) =>
    from === undefined || line.from === from)
  const update = (): void => { for (const { up, down } of lines) { up.update(); down.update() } }
  const each = (from: string | undefined, act: (line: Line) => void): number => {
    const list = chosen(from)
    list.forEach(act)
    return list.length
  }

  return {
    host: address, port, seen,
    address: address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`,
    get open () { return lines.size },
    retarget (next) { target = next },
    shape (rule, direction = 'both', from = EVERYONE) { rules.add(rule, direction, from); update() },
    cut (from = EVERYONE, direction = 'both') { rules.add({ cut: true }, direction, from); update() },
    heal (from) { rules.remove(from); update() },
    reset: (from) => each(from, ({ client, server }) => { abort(client); abort(server) }),
    halfOpen: (from) => each(from, (line) => { line.up.swallow(); line.down.swallow(); abort(line.server) }),
    corrupt: (direction, n = 0, from) => each(from, (line) => { line[direction].corrupt(n) }),
    drop: (direction, bytes, from) => each(from, (line) => { line[direction].drop(bytes) }),
    refuse (on) { refusing = on },
    async close () {
      refusing = true
      const closed = new Promise<void>((resolve) => { server.close(() => { resolve() }) })
      each(undefined, ({ client, server }) => { client.destroy(); server.destroy() })
      await closed
    }
  }
}

function join (client: Socket, server: Socket, from: string, rules: Rules, seen: ChaosProxy['seen']): Line {
  server.on('error', () => {})
  const up = new Flow(client, server, () => rules.of(from, 'up'), (bytes) => { seen.up += bytes })
  const down = new Flow(server, client, () => rules.of(from, 'down'), (bytes) => { seen.down += bytes })
  return { from, client, server, up, down }
}

function whenOver ({ client, server }: Line, over: () => void): void {
  let open = 2
  for (const socket of [client, server]) socket.once('close', () => { if (--open === 0) over() })
}

function listening (server: Server, { port = 0, host = '127.0.0.1' }: ProxyOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => { server.off('error', reject); resolve() })
  })
}
