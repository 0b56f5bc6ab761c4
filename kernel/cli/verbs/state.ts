import type { Verb } from '../verb.js'

export default {
  async run ({ client, out }) {
    out.value(await client.json('/state'))
  }
} satisfies Verb
