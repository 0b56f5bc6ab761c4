import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { ClusterService, EventTapService, SessionService } from '../../../kernel/index.js'
import { createEventLogPlugin } from '../index.js'
import { EventLogService } from '../service.js'
import { defaultParts } from '../store/opening.js'
import type { EventsPage } from '../reading/page.js'
import type { StoreParts } from '../store/opening.js'
import type { Cluster, EventTap, NodeView, Session } from '../../../kernel/index.js'
import type { Rig, StartOptions, TestContext } from '../../../kernel/testing/index.js'

/** The plugin on a real kernel, with a cluster and events from the test. */
export interface LogRig extends Rig {
  happen (kind: string, payload?: Record<string, unknown>): void
  /** The plugin's messages to other nodes. */
  sent: { to: string, message: unknown }[]
  /** Nodes that the plugin reported as alive. */
  signs: string[]
  hear (from: string, message: unknown): void
  peer (installId: string, up: boolean): void
  /** Puts this node into a session led by the node with that install id. */
  session (sid: string, masterInstallId: string | null): void
  stored (): Promise<void>
  page (query?: string): Promise<EventsPage>
}

export const noSqlite: Partial<StoreParts> = { load: async () => { throw new Error('no sqlite3 here') } }

export const SELF = { installId: 'self-install', nodeId: 'selfnode' }
const KINDS = ['NodeJoined', 'NodeTimedOut', 'MasterElected', 'LogGap']

const node = (nodeId: string, installId: string, name: string, self: boolean): NodeView =>
  ({ nodeId, installId, name, self, live: true, master: self, apiUrl: null })

export const nodes = [
  node(SELF.nodeId, SELF.installId, 'one', true), node('othernode', 'other', 'two', false)
]

/** Starts the plugin; by default it is immediately master of session `s1`. */
export async function startLog (
  t: TestContext, options: StartOptions & { tap?: Partial<EventTap>, parts?: Partial<StoreParts> } = {}
): Promise<LogRig> {
  let listener: Parameters<EventTap['onDurable']>[0] = () => {}
  let receive: (from: string, message: unknown) => void = () => {}
  let onPeers: Parameters<Cluster['onPeers']>[0] = () => {}
  const sessionListeners = new Set<() => void>()
  const sent: LogRig['sent'] = []
  const signs: string[] = []
  let now = { sid: 's1', master: SELF.installId as string | null }
  const masterNodeId = (): string | null => nodes.find((n) => n.installId === now.master)?.nodeId ?? null
  const session: Session = {
    get sessionId () { return now.sid },
    get isMaster () { return now.master === SELF.installId },
    get masterNodeId () { return masterNodeId() },
    onChange (fn) {
      sessionListeners.add(fn)
      return () => { sessionListeners.delete(fn) }
    }
  }
  const cluster = fake(ClusterService, {
    self: SELF,
    get masterInstallId () { return now.master },
    nodes: () => nodes.slice(0, 1),
    lives: (nodeId) => { signs.push(nodeId) },
    resolve: (ref) => nodes.find((n) => [n.nodeId, n.installId, n.name].includes(ref)),
    channel (_name, fn) {
      receive = fn as typeof receive
      return {
        send: (to, message) => { sent.push({ to, message }); return true },
        broadcast: (message) => { sent.push({ to: '*', message }); return 0 },
        close () { receive = () => {} }
      }
    },
    onPeers (fn) {
      onPeers = fn
      return () => { onPeers = () => {} }
    }
  } satisfies Partial<Cluster>)
  const tap = { onDurable: (fn: typeof listener) => { listener = fn; return () => { listener = () => {} } },
    kinds: () => KINDS, ...options.tap }
  const fakes = [fake(EventTapService, tap), cluster, fake(SessionService, session), ...options.fakes ?? []]
  const plugin = createEventLogPlugin({ ...defaultParts('0'), ...options.parts })
  const rig = await startPlugin(t, plugin, { clock: manualClock(), ...options, fakes })
  return {
    ...rig, sent, signs,
    happen (kind, payload = {}) { listener({ kind, payload }) },
    hear: (from, message) => { receive(from, message) },
    peer: (installId, up) => { onPeers({ installId, up }) },
    session (sid, master) {
      now = { sid, master }
      for (const fn of sessionListeners) fn()
    },
    async stored () {
      const log = rig.service(EventLogService)
      for (let i = 0; i < 2000 && log.status().queued > 0; i++) {
        await rig.clock.advance(25)
        await new Promise((resolve) => { setTimeout(resolve, 1) })
      }
    },
    page: async (query = '') => (await rig.inject({ url: `/events${query}` })).json() as EventsPage
  }
}
