/** What a pull would fetch, and whether there is room for it, in words. */
import { plain, showBytes } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { DownloadPlan } from '../handlers/plan.js'
import { storePath } from './api.js'
import type { NamedModel } from './source.js'

/** Where the plan for what is wanted is asked for. */
export function planPath (modelId: string, { allow = [], ...named }: Omit<NamedModel, 'modelId'>): string {
  const words = [...Object.entries(named), ...allow.map((pattern): [string, string] => ['allow', pattern])]
  return `${storePath(modelId)}/download/plan?${new URLSearchParams(words).toString()}`
}

/** Says what is fetched, and whether there is room for it. */
export function tellPlan (ctx: VerbContext, plan: DownloadPlan, begin: string): void {
  for (const line of linesOf(plan, begin)) ctx.err.line(plain(line))
}

function linesOf (plan: DownloadPlan, begin: string): string[] {
  const { hub, files, totalBytes, weightsBytes, variant, engine, disk, memory, unused } = plan
  const kind = [engine === null ? null : engine.toUpperCase(), variant].filter((word) => word !== null)
  return [
    `${begin} from ${hub}: ${files} ${files === 1 ? 'file' : 'files'}, ${showBytes(totalBytes)}` +
    (kind.length === 0 ? '' : ` (${kind.join(' ')})`),
    ...unused.map((part) => `not used of it: ${part}`),
    `disk of the store, on ${disk.node}: ${showBytes(disk.roomBytes)} are free for it`,
    memory === null
      ? `memory: its weights take at least ${showBytes(weightsBytes)}`
      : `memory: it takes at least ${showBytes(memory.neededBytes)}` + (memory.problem === null
        ? `; fits on ${memory.nodes.map(givenBy).join(', ')}` : ', which the cluster has not got now')
  ]
}

const givenBy = ({ name, usableBytes }: NonNullable<DownloadPlan['memory']>['nodes'][number]): string =>
  `${name} (${showBytes(usableBytes)} free for it)`

/** The largest weights that would fit on the disk and into memory, as a command; undefined where none do. */
export function smallerOf (plan: DownloadPlan, verb: 'run' | 'pull'): string | undefined {
  const { modelId, weightsBytes, variants, totalBytes, disk } = plan
  const rest = totalBytes - weightsBytes
  const smaller = variants.findLast(({ bytes, fits }) =>
    bytes < weightsBytes && fits !== false && bytes + rest <= disk.roomBytes)
  return smaller && `svc ${verb} ${modelId}:${smaller.name} (${showBytes(smaller.bytes)})`
}
