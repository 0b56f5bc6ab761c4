import { modelInPath, plain, readModelId, readNumber, type Verb } from '../../../kernel/cli/index.js'
import type { StoredPolicy } from '../place/policies.js'

interface Seen { policies?: Record<string, StoredPolicy> }

export default {
  async run (ctx, [model], options) {
    const { replicas, demand, targetOpen, idle } = options as Record<string, string | undefined>
    const [, min, max = min] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(replicas ?? '') ?? []
    if (replicas !== undefined && replicas !== 'none' && min === undefined) {
      throw ctx.fail(2, '--replicas: expected a number, a range such as 1-3, or none')
    }
    const id = readModelId(ctx, model!)
    const changes = replicas !== 'none' && (replicas ?? targetOpen ?? idle) !== undefined
    const { policies = {} } = changes ? await ctx.client.json<Seen>('/state') : {}
    const before = policies[id]?.replicas
    if (changes && min === undefined && before === undefined) {
      throw ctx.fail(2, `--replicas: no number of instances is set for ${id}; give one, such as 1-3`)
    }
    const some = {
      ...before, ...min === undefined ? {} : { min: Number(min), max: Number(max) },
      target_open: readNumber(ctx, '--target-open', targetOpen, { min: 1 }) ?? before?.target_open ?? 4,
      idle_seconds: readNumber(ctx, '--idle', idle, { min: 1 }) ?? before?.idle_seconds
    }
    if (!['on', 'off', undefined].includes(demand)) throw ctx.fail(2, '--demand: expected on or off')
    const body = {
      ...changes ? { replicas: some } : replicas === 'none' ? { replicas: null } : {},
      ...demand === undefined ? {} : { demand: demand === 'on' }
    }
    const path = `/models/${modelInPath(id)}/policy`
    const answer = await ctx.client.json<{ message: string }>(path, { method: 'PATCH', body })
    if (ctx.out.json) ctx.out.value(answer)
    else ctx.out.line(plain(answer.message))
  }
} satisfies Verb
