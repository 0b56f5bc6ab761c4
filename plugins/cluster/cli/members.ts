import { nearest, offerRemoval, plain, showBytes, formatDuration } from '../../../kernel/cli/index.js'
import { joinNodes, readMembers, type MemberList, type MemberRow, type NodeRow } from './nodes.js'
import type { AdmittedMember, ClusterState, Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { Gpu } from '../../../kernel/index.js'

export const members: Verb = {
  async run (ctx, [action, ref]) {
    if (action === undefined) return await list(ctx)
    if (action !== 'remove' || ref === undefined) {
      throw ctx.fail(2, 'expected `svc members` or `svc members remove ID`')
    }
    await remove(ctx, ref)
  }
}

async function list ({ client, out }: VerbContext): Promise<void> {
  const body = await client.json<MemberList>('/cluster/members')
  if (out.json) return out.value(body)
  const nameOf = (id: string): string => body.members.find(({ installId }) => installId === id)?.name ?? id
  out.table(['NAME', 'ID', 'NODE', 'LIVE', 'MASTER', 'VERSION', 'RTT', 'ADDRESSES', 'JOINED', 'ADMITTED BY'],
    body.members.map((m) => [m.self ? `${m.name} (this node)` : m.name, m.installId, m.nodeId ?? '-',
      m.live ? 'yes' : 'no', m.master ? 'yes' : '-', m.version ?? '-',
      m.rttMs === null ? '-' : `${m.rttMs.toFixed(1)} ms`, m.addresses.join(' ') || '-', m.joinedAt,
      m.admitted == null ? '-' : plain(`${m.admitted.by[0] ?? '?'} at ${nameOf(m.admitted.node)}`)]))
  for (const { address, state, reason, attempts } of body.dials) {
    if (state !== 'connected' && reason !== null) {
      out.line(`no connection to ${address} after ${attempts} attempts: ${reason}`)
    }
  }
}

async function remove (ctx: VerbContext, ref: string): Promise<void> {
  const { members } = await ctx.client.json<MemberList>('/cluster/members')
  const { installId, name } = findMember(ctx, members, ref)
  const path = `/cluster/members/${encodeURIComponent(installId)}`
  const answer = await ctx.client.json<{ admitted?: AdmittedMember[] }>(path, { method: 'DELETE' })
  if (ctx.out.json) ctx.out.value(answer)
  else {
    ctx.out.line(`removed ${name} (${installId}); to join again, it needs an empty home and a new ` +
      'token: `svc join-token`')
  }
  offerRemoval(ctx.err, answer.admitted)
}

/** Finds a member by node id, name or install id prefix. Throws VerbError: 3 if unknown, 2 if ambiguous. */
function findMember ({ fail }: VerbContext, members: readonly MemberRow[], ref: string): MemberRow {
  const exact = members.filter((m) => m.installId === ref || m.nodeId === ref || m.name === ref)
  const found = exact.length > 0 || ref.length < 4
    ? exact
    : members.filter((m) => m.installId.startsWith(ref))
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    throw fail(2, `"${ref}" matches ${found.length} members; use an id of \`svc members\`: ${
      found.map((m) => m.installId).join(', ')}`)
  }
  const near = nearest(ref, members.flatMap((m) => [m.name, m.installId]))
  throw fail(3, `no member "${ref}"${near === undefined ? '' : `; did you mean ${near}?`}\n` +
    '  `svc members` lists them')
}

export const nodes: Verb = {
  async run ({ client, out }) {
    const [state, members] = await Promise.all([client.json<ClusterState>('/state'), readMembers(client)])
    const nodes = joinNodes(state, members)
    if (out.json) out.value({ nodes })
    else {
      const gpus = nodes.some(({ accelerators }) => accelerators.length > 0)
      const common = ['NAME', 'NODE', 'URL', 'VERSION', 'MASTER', 'LIVE', 'MEMORY']
      const titles = [...common, ...gpus ? ['GPUS'] : [], 'HEALTH']
      out.table(titles, nodes.map((node) =>
        [node.name ?? '-', node.nodeId ?? '-', node.url ?? (node.isLocal ? client.url : '-'),
          node.version ?? '-', node.isMaster ? 'yes' : '-', liveness(node), memory(node),
          ...gpus ? [node.accelerators.map(gpuText).join('; ') || '-'] : [],
          node.live ? node.health.level : '-']))
    }
  }
}

function liveness ({ live, drained, lostForSeconds }: NodeRow): string {
  if (live) return drained ? 'drained' : 'live'
  return lostForSeconds === null ? 'lost' : `lost ${formatDuration(lostForSeconds)}`
}

/** `NVIDIA H200: 131 GiB of 140 GiB, 50 %, 38 °C, 79 W`; leaves out unknown values. */
function gpuText (gpu: Gpu): string {
  const { name, vramUsedBytes: used, vramTotalBytes: total, utilizationRatio: busy } = gpu
  const { temperatureCelsius: celsius, powerWatts: watts } = gpu
  const facts = [
    used === null || total === null ? [] : `${showBytes(used)} of ${showBytes(total)}`,
    busy === null ? [] : `${Math.round(busy * 100)} %`,
    celsius === null ? [] : `${Math.round(celsius)} °C`, watts === null ? [] : `${Math.round(watts)} W`
  ].flat()
  return plain([name, facts.join(', ')].filter((part) => part !== '').join(': '))
}

function memory ({ memoryAvailableBytes: free, memoryTotalBytes: total }: NodeRow): string {
  return free === null || total === null ? '-' : `${showBytes(free)} free of ${showBytes(total)}`
}
