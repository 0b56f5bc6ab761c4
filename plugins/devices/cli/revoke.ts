import { offerRemoval, type AdmittedMember, type Verb } from '../../../kernel/cli/index.js'

export default {
  async run ({ client, err, out }, [id]) {
    const path = `/v1/devices/${encodeURIComponent(id!)}`
    const answer = await client.json<{ id: string, admitted?: AdmittedMember[] }>(path, { method: 'DELETE' })
    if (out.json) out.value(answer)
    else out.line(`${answer.id} is permanently revoked`)
    offerRemoval(err, answer.admitted)
  }
} satisfies Verb
