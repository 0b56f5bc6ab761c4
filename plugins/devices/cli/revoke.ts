import type { Verb } from '../../../kernel/cli/index.js'

export default {
  async run ({ client, out }, [id]) {
    const path = `/v1/devices/${encodeURIComponent(id!)}`
    const answer = await client.json<{ id: string }>(path, { method: 'DELETE' })
    if (out.json) out.value(answer)
    else out.line(`${answer.id} is revoked for good`)
  }
} satisfies Verb
