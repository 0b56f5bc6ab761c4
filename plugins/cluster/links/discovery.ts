import { isIP } from 'node:net'
import { delay, guarded, openResponder, SERVICE_TYPE, systemClock } from '../../../kernel/cluster.js'
import type { Browser } from 'bonjour-service'
import type { Clock, Logger, OpenedResponder, OpenResponder, Responder } from '../../../kernel/cluster.js'

const TXT_VERSION = '1'
/** Interval in ms for repeating queries and joining new network interfaces. */
const REPEAT_MS = 60_000
/** Time limit in ms for sending the mDNS goodbye packet. */
const GOODBYE_MS = 500
/** If a network has more mDNS services than this, discovery stops searching but still publishes this node. */
const MAX_SERVICES = 512
const MAX_ADDRESSES = 8

/** The fields used from a service found on the network; all are untrusted. */
export interface SeenService {
  readonly port?: unknown
  readonly txt?: unknown
  readonly addresses?: readonly unknown[] | undefined
  readonly referer?: { readonly address?: unknown } | undefined
}

export interface DiscoveryOptions {
  /** Port of the members' listener, 1 to 65535. */
  port: number
  /** Whether the listener has IPv6 addresses, which are then published too. */
  ipv6: boolean
  installId: string
  /** A short hash of the cluster id; services with another hash are not reported. */
  clusterHash: string
  log: Logger
  /** Called with a `host:port` (IPv6 in brackets) where a node of this cluster may listen; only a hint. */
  found (address: string): void
  clock?: Clock
  /** Opens the mDNS responder; replaced in tests. */
  open?: OpenResponder
}

/**
 * Announces this node's members' listener by mDNS and reports those of other nodes in the cluster. These are
 * hints: dialling an address authenticates the node. Never throws and never keeps the process alive; logs
 * once, at debug, if multicast does not work.
 */
export function createDiscovery (options: DiscoveryOptions): { stop (): Promise<void> } {
  const { log, clock = systemClock, open = openResponder } = options
  let opened: OpenedResponder | undefined
  let stopped = false
  let search: Browser | undefined
  const undo: (() => void)[] = []
  const end = (): void => {
    for (const fn of undo.splice(0)) fn()
    search?.stop()
    opened?.close()
    search = opened = undefined
  }
  const broken = (error: unknown): void => {
    if (stopped) return
    stopped = true
    log.debug({ err: error }, 'multicast does not work: no discovery on the local network')
    end()
  }
  const start = async (): Promise<void> => {
    opened = await open(broken)
    if (stopped) return end()
    search = begin(options, opened.responder)
    undo.push(clock.every(REPEAT_MS, () => { guarded(broken, repeat) }))
  }
  const repeat = (): void => {
    opened?.repeat()
    if ((search?.services.length ?? 0) > MAX_SERVICES) {
      log.debug({ services: MAX_SERVICES }, 'too many services on the network: discovery stops')
      search?.stop()
    } else search?.update()
  }
  const starting = start().catch(broken)
  return {
    async stop () {
      await starting
      if (!stopped && opened !== undefined) await sayGoodbye(opened.responder, clock)
      stopped = true
      end()
    }
  }
}

function begin (
  { port, ipv6, installId, clusterHash, found }: DiscoveryOptions, responder: Responder
): Browser {
  const txt = { v: TXT_VERSION, c: clusterHash, i: installId }
  responder.publish({
    name: installId, host: `${installId}.local`, type: SERVICE_TYPE, port, txt, probe: false,
    disableIPv6: !ipv6
  })
  const report = (service: SeenService): void => {
    for (const address of hintsOf(service, { installId, clusterHash })) found(address)
  }
  const search = responder.find({ type: SERVICE_TYPE, txt: { c: clusterHash } }, report)
  search.on('srv-update', report)
  search.on('txt-update', report)
  return search
}

async function sayGoodbye (responder: Responder, clock: Clock): Promise<void> {
  const said = new Promise<void>((resolve) => { responder.unpublishAll(resolve) })
  await Promise.race([said, delay(clock, GOODBYE_MS)]).catch(() => {})
}

/**
 * Addresses to try for a service; none for this node itself, another cluster or invalid fields. Leaves out
 * link-local IPv6 addresses, which need an interface; uses the sender's address if the service has none.
 * Pure.
 */
export function hintsOf (service: SeenService, self: { installId: string, clusterHash: string }): string[] {
  const txt = (typeof service.txt === 'object' && service.txt !== null ? service.txt : {}) as
    Record<string, unknown>
  const { port } = service
  if (txt['v'] !== TXT_VERSION || txt['c'] !== self.clusterHash) return []
  if (typeof txt['i'] !== 'string' || txt['i'] === self.installId) return []
  if (!Number.isInteger(port) || (port as number) < 1 || (port as number) > 65535) return []
  const own = (service.addresses ?? []).filter(isUsable)
  const hosts = own.length > 0 ? own : [service.referer?.address].filter(isUsable)
  return [...new Set(hosts)].slice(0, MAX_ADDRESSES)
    .map((host) => `${isIP(host) === 6 ? `[${host}]` : host}:${String(port)}`)
}

function isUsable (address: unknown): address is string {
  return typeof address === 'string' && isIP(address) !== 0 && !/^fe[89ab]/i.test(address)
}
