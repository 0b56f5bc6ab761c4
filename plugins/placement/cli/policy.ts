import { modelInPath, plain, readModelId, readNumber, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import type { ReplicaPolicy } from '../place/policies.js'
import type { SeenState } from './state.js'

const DEMAND: Readonly<Record<string, boolean | null>> = { on: true, off: false, default: null }

export default {
  async run (ctx, [model], options) {
    const modelId = readModelId(ctx, model!)
    const { policies = {} } = await ctx.client.json<SeenState>('/state')
    const body = patchOf(ctx, policies[modelId]?.replicas, options)
    const answer = Object.keys(body).length > 0
      ? await ctx.client.json<{ message: string }>(`/models/${modelInPath(modelId)}/policy`,
        { method: 'PATCH', body })
      : { message: `Policy of ${modelId}: ${policies[modelId]?.words ?? 'none'}.`, policy: policies[modelId] }
    if (ctx.out.json) ctx.out.value(answer)
    else ctx.out.line(plain(answer.message))
  }
} satisfies Verb

/** The changes that the options ask for; replicas keep what no option names. Throws VerbError (2). */
function patchOf (
  ctx: VerbContext, now: ReplicaPolicy | undefined, options: Record<string, unknown>
): { demand?: boolean | null, replicas?: ReplicaPolicy | null } {
  const { replicas, demand } = options as Record<string, string | undefined>
  if (demand !== undefined && !Object.hasOwn(DEMAND, demand)) {
    throw ctx.fail(2, `--demand ${demand}: expected on, off or default`)
  }
  const loads = demand === undefined ? {} : { demand: DEMAND[demand]! }
  if (replicas === 'none') return { ...loads, replicas: null }
  const [, min, max = min] = /^(\d+)(?:-(\d+))?$/.exec(replicas ?? `${now?.min}-${now?.max}`) ?? []
  const target = readNumber(ctx, '--target-open', options['targetOpen'], { min: 1 })
  const idle = readNumber(ctx, '--idle', options['idle'], { min: 1 })
  if (replicas === undefined && target === undefined && idle === undefined) return loads
  if (min === undefined) throw ctx.fail(2, '--replicas: expected a number such as 2, a range such as 1-3, or none')
  return {
    ...loads,
    replicas: {
      target_open: 4, ...now, min: Number(min), max: Number(max),
      ...target === undefined ? {} : { target_open: target }, ...idle === undefined ? {} : { idle_seconds: idle }
    }
  }
}
