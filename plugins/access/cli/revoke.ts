import type { Verb } from '../../../kernel/index.js'

export default {
  async run ({ client, out }, [id]) {
    const answer = await client.json<{ id: string }>(`/v1/tokens/${encodeURIComponent(id!)}`, { method: 'DELETE' })
    if (out.json) out.value(answer)
    else out.line(`${answer.id} is revoked`)
  }
} satisfies Verb
