import { plain, programIn, type Verb } from '../../../kernel/cli/index.js'
import type { Answers } from '../routes.js'

export default {
  async run (ctx, words, options) {
    const query = words.join(' ').trim()
    if (query === '') throw ctx.fail(2, 'svc search needs a part of a model name, such as `svc search qwen`')
    const asked = new URLSearchParams({ query })
    if (options['limit'] !== undefined) asked.set('limit', String(options['limit']))
    const answer = await ctx.client.json<Answers['searchHub']>(`/store/search?${asked}`)
    const { hub, models } = answer
    if (ctx.out.json) return ctx.out.value(answer)
    if (models.length === 0) return ctx.err.line(plain(`${hub} has no model with "${query}" in its name`))
    ctx.out.table(['MODEL', 'FORMAT', 'TASK', 'DOWNLOADS', 'UPDATED', 'NOTE'], models.map((one) => [
      one.modelId, one.engine?.toUpperCase() ?? '-', one.task ?? '-', one.downloads?.toString() ?? '-',
      one.updatedAt?.slice(0, 10) ?? '-', noteOn(one)
    ]))
    const first = models.find(({ engine, here }) => engine !== null && !here)
    if (first !== undefined) ctx.err.line(`next: ${programIn(ctx.io.cwd)} pull ${first.modelId}`)
  }
} satisfies Verb

function noteOn ({ here, gated, engine }: Answers['searchHub']['models'][number]): string {
  const notes = [
    here ? 'here' : '', gated ? 'requires accepting its terms' : '',
    engine === null ? 'unsupported format' : ''
  ]
  return notes.filter((note) => note !== '').join(', ') || '-'
}
