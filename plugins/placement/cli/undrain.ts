import { plain } from '../../../kernel/cli/index.js'
import type { Verb } from '../../../kernel/cli/index.js'

export default {
  async run ({ client, out }, [node]) {
    const path = `/nodes/${encodeURIComponent(node!)}/drain`
    const answer = await client.json<{ message: string }>(path, { method: 'DELETE' })
    if (out.json) out.value(answer)
    else out.line(plain(answer.message))
  }
} satisfies Verb
