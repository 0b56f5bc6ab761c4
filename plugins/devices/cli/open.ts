import type { Verb } from '../../../kernel/cli/index.js'

/** Prints the address of the page with a one-time code that signs one browser in. */
export default {
  async run ({ client, err, out }, _args, { authorities }) {
    const body = authorities === undefined ? {} : { authorities }
    const { code, ends, url: own } = await client.json<{ code: string, ends: string, url: string | null }>(
      '/v1/devices/sign-in', { method: 'POST', body })
    const urls = [client.url, own ?? client.url].map((url) => new URL(`#sign-in=${code}`, url).href)
    if (urls[0] === urls[1]) urls.pop()
    if (out.json) return out.value({ urls, ends })
    for (const url of urls) out.line(url)
    err.line(`Open ${urls.length === 1 ? 'it' : 'one of them'} within 60 seconds: it signs in one browser, ` +
      'as a device that `svc devices revoke` ends.')
  }
} satisfies Verb
