import { storePath, sizeOfCopies, locationsText, type CopiesAnswer } from './api.js'
import { canAsk, confirm, isVerbError, readModelId, plain, showBytes } from '../../../kernel/cli/index.js'
import type { Verb, VerbContext, VerbError } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, words, options) {
    const ids = [...new Set(words.map((word) => readModelId(ctx, word)))]
    if (options['yes'] !== true && canAsk(ctx) && !await agreed(ctx, ids)) {
      ctx.err.line('nothing was removed')
      return 1
    }
    const failures: VerbError[] = []
    const models: object[] = []
    for (const modelId of ids) {
      const failure = await remove(ctx, modelId)
      models.push({ modelId, deleted: failure === null, error: failure?.message ?? null })
      if (failure !== null) failures.push(failure)
      if (ctx.out.json) continue
      if (failure === null) ctx.out.line(`${modelId} was removed from the store`)
      else if (ids.length > 1) ctx.err.line(`${modelId}: ${plain(failure.message)}`)
    }
    if (ctx.out.json) ctx.out.value({ models })
    if (failures.length === 0) return
    if (ids.length === 1) throw failures[0]!
    throw ctx.fail(failures[0]!.exitCode, `${failures.length} of ${ids.length} models could not be removed`)
  }
} satisfies Verb

async function agreed (ctx: VerbContext, ids: readonly string[]): Promise<boolean> {
  const { copies } = await ctx.client.json<CopiesAnswer>('/models/copies')
  for (const modelId of ids) {
    const own = copies.filter((copy) => copy.modelId === modelId)
    const size = sizeOfCopies(own)
    ctx.err.line(plain(`${modelId}  ${size === undefined ? '-' : showBytes(size)}  ${locationsText(own)}`))
  }
  const what = ids.length === 1 ? ids[0]! : `${ids.length} models`
  return await confirm(ctx, `Remove ${what} from the store, with all unused staged copies?`)
}

async function remove (ctx: VerbContext, modelId: string): Promise<VerbError | null> {
  try {
    await ctx.client.json(storePath(modelId), { method: 'DELETE' })
    return null
  } catch (error) {
    if (ctx.signal.aborted || !isVerbError(error)) throw error
    return error
  }
}
