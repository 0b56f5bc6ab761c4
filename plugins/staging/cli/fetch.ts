import { offerEngine } from '../../llama-cpp/service.js'
import { askPatiently } from './api.js'
import { planPath, smallerOf, tellPlan } from './plan.js'
import { bringIn } from './pull.js'
import { canAsk, confirm, plain, showBytes } from '../../../kernel/cli/index.js'
import type { Answers } from '../routes.js'
import type { Pace, VerbContext } from '../../../kernel/cli/index.js'
import type { NamedModel } from './source.js'

/**
 * Brings a model that is not here into the store, for a verb that needs it: says what is fetched and whether
 * it fits, asks on a terminal unless `yes`, and shows how far it is. Throws VerbError.
 */
export async function fetchModel (
  ctx: VerbContext, pace: Pace, { modelId, ...named }: NamedModel, yes: boolean
): Promise<void> {
  const plan = await askPatiently<Answers['plan']>(ctx, planPath(modelId, named))
  tellPlan(ctx, plan, `${modelId} is not here;`)
  refuseTooLarge(ctx, plan)
  await bringEngine(ctx, plan, yes)
  if (!yes && canAsk(ctx) && !await confirm(ctx, `Fetch ${showBytes(plan.totalBytes)}?`)) {
    throw ctx.fail(1, 'nothing was fetched')
  }
  await bringIn(ctx, pace, { modelId, body: named })
}

/** Where no node has the program that the format runs on, offers it; throws where it does not come. */
async function bringEngine (
  ctx: VerbContext, { modelId, memory }: Answers['plan'], yes: boolean
): Promise<void> {
  if ((memory?.engineMissing ?? null) === null || await offerEngine(ctx, yes)) return
  throw ctx.fail(1, `${modelId} runs on llama.cpp, whose llama-server no node has\n` +
    '  `svc engine add llama.cpp` brings it, on each node that is to run such models')
}

/** Throws with exit 6, the sum and the largest weights that would fit. */
function refuseTooLarge (ctx: VerbContext, plan: Answers['plan']): void {
  const { modelId, disk, memory } = plan
  if (disk.problem === null && (memory?.problem ?? null) === null) return
  const smaller = smallerOf(plan, 'run')
  throw ctx.fail(6, [
    disk.problem === null
      ? `${modelId} does not fit into memory: ${plain(memory!.problem!)}`
      : `${modelId} does not fit on the disk of ${disk.node}: ${plain(disk.problem)}`,
    smaller === undefined
      ? '  free some: `svc ps` shows what is loaded, `svc rm` and `svc purge` give disk back'
      : `  a smaller one: ${smaller}`
  ].join('\n'))
}
