import { readSetting, type EngineHelp } from '../../kernel/cli/index.js'
import { findPrograms, wordsOf, type Settings } from './find.js'

export default {
  async programs (ctx) {
    const { io: { env } } = ctx
    const settings = await readSetting(ctx, 'plugins.openai-programs') as Settings
    const host = { platform: process.platform, env, uid: process.getuid?.() ?? 0 }
    return findPrograms(settings, host).map((found) =>
      ({ words: wordsOf(found), path: found.path, problem: found.problem }))
  }
} satisfies EngineHelp
