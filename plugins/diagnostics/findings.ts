/** Findings: what is wrong or noteworthy now or was in the last day, from the checks and tools of plugins. */
import { deadline, raceAbort, systemClock, type Manifest } from '../../kernel/index.js'
import { causeAmong, isSymptom, isVerbError, factOf, quoted } from '../../kernel/cli/index.js'
import type { ClusterState, Evidence, Fact, Tool, ToolContext } from '../../kernel/cli/index.js'
import { clusterChecks } from './checks/cluster.js'

export interface Found extends Fact {
  /** Start time, ISO-8601; null if unknown. */
  readonly since: string | null
  readonly ended: boolean
  /** Code of the finding that probably causes this one. */
  readonly cause: string | null
  /** The check or tool that found it, and the authority needed to read what it read. */
  readonly source: string
  readonly authority: string
}

export interface Findings { readonly facts: readonly Found[], readonly unknown: readonly string[] }

/** Period of ended findings in ms, unless the caller names another. */
export const PAST_MS = 24 * 3_600_000
/** Deadline of a source in ms, and of each node's own report; `svc ask` answers within a second. */
const SOURCE_MS = 900
const REPORT_MS = 700
const REPORTS = '/v1/diagnostics/cluster'

const RANKS = { fail: 0, warn: 1, info: 2, ok: 3 }

/** The tool `doctor`: the findings of the last day. */
export default { run: (ctx) => findings(ctx) } satisfies Tool

interface Source { name: string, past: boolean, run: (ctx: ToolContext) => Promise<Pick<Findings,
  'unknown'> & { facts: readonly Fact[] }> }

/**
 * All findings that the caller of `ctx` may read, the worst first, including what was checked and is fine.
 */
export async function findings (ctx: ToolContext, sinceMs = ctx.nowMs - PAST_MS): Promise<Findings> {
  const state = await ctx.look<ClusterState>('/state')
  if (isVerbError(state)) return { facts: [], unknown: [`The state could not be read: ${state.message}`] }
  const { manifests } = await ctx.declared()
  const parts = await Promise.all(sourcesOf(manifests, state, sinceMs).map(async (source) => {
    const reads = new Set<string>()
    const look: ToolContext['look'] = async <T>(path: string) => {
      const answer = await ctx.look<T>(path === REPORTS ? `${path}?timeout_ms=${REPORT_MS}` : path)
      if (!isVerbError(answer)) reads.add(authorityOf(manifests, path))
      return answer
    }
    const late = `${source.name} did not answer within ${SOURCE_MS / 1000} s.`
    const { signal, stop } = deadline(systemClock, SOURCE_MS, () => new Error(late))
    const found = await raceAbort(source.run({ ...ctx, look }), signal).catch((error: unknown) =>
      ({ facts: [], unknown: [signal.aborted ? late : `${source.name} failed: ${quoted(String(error))}.`] }))
      .finally(stop)
    const authority = [...reads].find((one) => one !== 'read') ?? 'read'
    return {
      facts: found.facts.map((fact): Found => ({
        ...fact, since: sinceOf(fact, state), cause: null, source: source.name, authority,
        ended: source.past && fact.level === 'info'
      })),
      unknown: found.unknown
    }
  }))
  const facts = distinct(parts.flatMap((part) => part.facts)).toSorted((a, b) =>
    RANKS[a.level] - RANKS[b.level] || Number(a.ended) - Number(b.ended) ||
    Number(isSymptom(a)) - Number(isSymptom(b)))
  const silent = facts.filter(({ code }) => code === 'node_silent').flatMap(({ about }) => about)
  return {
    facts: facts.map((fact) => ({ ...fact, cause: causeAmong(fact, facts)?.code ?? null })),
    unknown: [...new Set([...parts.flatMap((part) => part.unknown),
      ...silent.length === 0 ? [] : [`Not asked: ${silent.join(', ')}, which did not answer in time.`]])]
  }
}

function sourcesOf (manifests: readonly Manifest[], state: ClusterState, sinceMs: number): Source[] {
  return [
    {
      name: 'checks', past: false, run: async ({ look }) => {
        const { checks, unknown } = await clusterChecks({ state, look, manifests, version: null })
        // That the caller may not read the member list is no fault of the cluster; `unknown` mentions it.
        return { facts: checks.filter(({ code }) => code !== 'members_hidden').map(factOf), unknown }
      }
    },
    ...manifests.flatMap(({ tools = {} }) => Object.entries(tools).flatMap(([name, { finds, load }]) => {
      if (finds === undefined) return []
      const from = finds.past && finds.args !== undefined ? { from: new Date(sinceMs).toISOString() } : {}
      return [{
        name, past: finds.past, run: async (ctx: ToolContext) => {
          const { facts, unknown } = await ((await load()).default as Tool)
            .run(ctx, { ...finds.args, ...from })
          return { unknown, facts: facts.filter((fact) => timeOf(fact) === null || timeOf(fact)! >= sinceMs) }
        }
      }]
    }))
  ]
}

const authorityOf = (manifests: readonly Manifest[], path: string): string =>
  manifests.flatMap(({ routes = {} }) => Object.values(routes))
    .find(({ method, url }) => method === 'GET' && url === path.split('?')[0])?.authority ?? 'read'

const momentOf = (one: Evidence): string[] => 'at' in one ? [one.at] : []
const timeOf = ({ evidence }: Fact): number | null => {
  const [at] = evidence.flatMap(momentOf)
  return at === undefined ? null : Date.parse(at)
}

function sinceOf ({ code, evidence }: Fact, { lastSeen = {} }: ClusterState): string | null {
  const seen = code === 'node_lost'
    ? evidence.flatMap((one) => one.kind === 'node' ? lastSeen[one.nodeId] ?? [] : []) : []
  return seen[0] ?? evidence.flatMap(momentOf)[0] ?? null
}

/** Removes the same finding of another source. */
function distinct (facts: readonly Found[]): Found[] {
  const seen = new Map<string, string>()
  return facts.filter(({ code, about, text, source }) => {
    const key = `${code} ${about.length === 0 ? text : [...about].sort().join(' ')}`.toLowerCase()
    const before = seen.get(key) ?? source
    seen.set(key, before)
    return before === source
  })
}
