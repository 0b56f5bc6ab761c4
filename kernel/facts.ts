import os from 'node:os'
import { withViews } from './state.js'
import type { ClusterCore, LinkPeer } from './cluster/cluster.js'
import type { Telemetry } from './cluster/telemetry/index.js'
import type { Caller, NodeInfo, Section, SectionDecl } from './define.js'
import type { Health, NodeHealth } from './health.js'
import type { NodeView } from './services.js'
import type { LinkFact, NodeFacts, StateView } from './state.js'
import type { Vitals } from './vitals.js'

/** A node that gave no sign of life for so long is shown as unreachable, ms. */
const UNREACHABLE_MS = 15_000
/** Readings older than this say nothing about now, ms. */
const READING_MS = 15_000

/** What a node says of itself to the others, as an entry of its own document. */
const nodeSection = { writer: 'node', summary: 'Who a node is, how it is, and what it can do.', value: {} } as
  const satisfies SectionDecl

export interface FactsOptions {
  node: NodeInfo
  cluster: ClusterCore
  telemetry: Telemetry
  health: Health
  vitals: () => Promise<Vitals>
  url: () => string | null
  /** Links of this node. */
  peers: () => readonly LinkPeer[]
  bandwidth: (installId: string) => number | null
  tags: ReadonlySet<string>
  views: ReadonlyMap<string, StateView>
  /** Texts of the conflict that a lost node gets. */
  unreachable: { readonly severity: 'warn' | 'error', readonly meaning: string, readonly remediation: string }
  mono: () => number
  now: () => number
}

/** Facts about every node: this one's as they are, the others' as they say. */
export interface Facts {
  all (): Promise<NodeFacts[]>
  /** Tells the others what changed here. */
  publish (): Promise<void>
}

const NOBODY: Caller = { id: 'node', mode: 'direct', authorities: new Set() }

export function createFacts (options: FactsOptions): Facts {
  const section = options.cluster.sections.section<unknown>('node', nodeSection)
  const own = async (view: NodeView): Promise<NodeFacts> => ownFacts(options, view, await options.vitals())
  return {
    async all () {
      const [self, ...others] = options.cluster.directory.nodes()
      return [await own(self!), ...others.map((view) => factsOf(options, section, view))]
    },
    async publish () {
      const facts = await own(options.cluster.directory.nodes()[0]!)
      const { identity, health, resources, capabilities } = facts
      for (const [key, value] of Object.entries({ identity, health, resources, capabilities })) {
        if (JSON.stringify(section.get(key)) !== JSON.stringify(value)) section.put(key, value)
      }
      options.telemetry.offer('system', facts.system)
      options.telemetry.offer('links', facts.links)
      options.telemetry.offer('tasks', facts.tasks)
    }
  }
}

/** This node's facts, with what its plugins add to them. */
function ownFacts (options: FactsOptions, view: NodeView, vitals: Vitals): NodeFacts {
  const { nodeId } = view
  const health = options.health.snapshot()
  const base = {
    tasks: {},
    nodeSystem: { [nodeId]: vitals.system },
    nodeResources: {
      [nodeId]: { backends: ['cpu'], participation: 'full', capabilityConflicts: health.reasons }
    }
  }
  const views = new Map([...options.views].filter(([key]) => key in base))
  const seen = withViews(base, views, NOBODY, () => {}) as typeof base
  return {
    view,
    seenAt: options.now(),
    identity: identityOf(options.node, options.url()),
    memory: vitals.memory,
    system: seen.nodeSystem[nodeId] ?? null,
    disk: vitals.disk,
    network: vitals.network,
    health,
    resources: seen.nodeResources[nodeId] ?? null,
    capabilities: [...options.tags].sort(),
    links: linksOf(options),
    tasks: seen.tasks
  }
}

function identityOf (node: NodeInfo, url: string | null): object {
  return {
    modelId: os.machine(),
    chipId: os.cpus()[0]?.model ?? 'unknown',
    friendlyName: node.name,
    osVersion: `${os.type()} ${os.release()}`,
    svcVersion: node.version,
    svcCommit: null,
    nodeInstallId: node.installId,
    apiUrl: url
  }
}

function linksOf ({ peers, bandwidth }: FactsOptions): LinkFact[] {
  return peers().map(({ installId, nodeId, apiUrl, address, rttMs }) => {
    const cut = address.lastIndexOf(':')
    const ipAddress = address.slice(0, cut).replace(/^\[|\]$/g, '').replace(/^::ffff:/, '')
    const port = Number(apiUrl === null ? address.slice(cut + 1) : new URL(apiUrl).port || 80)
    const measured = rttMs === null ? null : Math.round(rttMs * 100) / 100
    return { nodeId, ipAddress, port, rttMs: measured, bytesPerSecond: bandwidth(installId) }
  })
}

/** Another node's facts out of its document and its readings. */
function factsOf (options: FactsOptions, section: Section<unknown>, view: NodeView): NodeFacts {
  const { nodeId, installId } = view
  const said = <T>(key: string): T | null => (section.get(key, nodeId) as T | undefined) ?? null
  const read = <T>(key: string): T | null => {
    const reading = options.telemetry.latest(installId, key)
    return reading === undefined || options.mono() - reading.atMs > READING_MS ? null : reading.value as T
  }
  const seenAt = options.cluster.directory.seenAt(installId) ?? null
  return {
    view,
    seenAt,
    identity: said('identity') ?? { friendlyName: view.name, nodeInstallId: installId, apiUrl: view.apiUrl },
    memory: read('memory'),
    system: read('system'),
    disk: read('disk'),
    network: read('network'),
    health: healthOf(options, view, said('health'), seenAt),
    resources: said('resources'),
    capabilities: said<string[]>('capabilities') ?? [],
    links: read<LinkFact[]>('links') ?? [],
    tasks: read<Record<string, unknown>>('tasks') ?? {}
  }
}

function healthOf (
  options: FactsOptions, view: NodeView, said: NodeHealth | null, seenAt: number | null
): NodeHealth {
  const health = said ?? { level: 'ok', reasons: [] }
  const silentMs = seenAt === null ? Infinity : options.now() - seenAt
  if (view.live || silentMs <= UNREACHABLE_MS) return health
  const { severity, meaning, remediation } = options.unreachable
  const since = seenAt === null ? 'It was not heard since this node started.'
    : `It was last heard ${Math.round(silentMs / 1000)} s ago.`
  const reason = { code: 'unreachable', severity, message: `${meaning} ${since}`, remediation }
  return {
    level: health.level === 'error' ? 'error' : severity,
    reasons: [...health.reasons.filter(({ code }) => code !== 'unreachable'), reason]
  }
}
