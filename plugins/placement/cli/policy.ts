import { modelInPath, plain, readModelId, readNumber, type Verb } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, [model], options) {
    const { replicas, demand, targetOpen, idle } = options as Record<string, string | undefined>
    const [, min, max = min] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(replicas ?? '') ?? []
    const some = {
      min: Number(min), max: Number(max),
      target_open: readNumber(ctx, '--target-open', targetOpen, { min: 1 }) ?? 4,
      ...idle === undefined ? {} : { idle_seconds: readNumber(ctx, '--idle', idle, { min: 1 }) }
    }
    const wanted = replicas ?? targetOpen ?? idle
    if (wanted !== undefined && replicas !== 'none' && min === undefined) {
      throw ctx.fail(2, '--replicas: expected a number, a range such as 1-3, or none')
    }
    if (!['on', 'off', undefined].includes(demand)) throw ctx.fail(2, '--demand: expected on or off')
    const body = {
      ...wanted === undefined ? {} : { replicas: replicas === 'none' ? null : some },
      ...demand === undefined ? {} : { demand: demand === 'on' }
    }
    const path = `/models/${modelInPath(readModelId(ctx, model!))}/policy`
    const answer = await ctx.client.json<{ message: string }>(path, { method: 'PATCH', body })
    if (ctx.out.json) ctx.out.value(answer)
    else ctx.out.line(plain(answer.message))
  }
} satisfies Verb
