// Signs this browser in with the code in the address that `svc open` printed.
import { send } from '../api.js'
import { home, notice, useToken } from '../link.js'
import { failed } from '../ui/toast.js'
import { pairHere } from './pair.js'
import { browserName } from './words.js'

const LIMIT_MS = 30_000

/** The code in the page's address, which is removed from there and from the history; null without one. */
export function takeCode (): string | null {
  const code = /^#sign-in=([\w-]+)$/.exec(location.hash)?.[1] ?? null
  if (code === null) return null
  history.replaceState(null, '', '#/')
  dispatchEvent(new Event('hashchange'))
  return code
}

/**
 * Over TLS and on the node's own machine this browser becomes a device. Elsewhere browsers let no page have a
 * key, so the page gets a token that it keeps in memory.
 */
export async function signIn (code: string): Promise<void> {
  const signal = AbortSignal.timeout(LIMIT_MS)
  try {
    if (globalThis.isSecureContext) {
      return await pairHere(browserName(navigator.userAgent), signal, { code, compare: async () => true })
    }
    const options = { body: { code }, signal }
    const answer = await send({ origin: home, token: null }, '/v1/devices/sign-in/token', options)
    useToken((await answer.json() as { token: string }).token)
    notice.value = 'You are signed in until this page is closed or loaded again. To stay signed in, ' +
      'switch TLS on at the node: `svc config set api.tls self`, restart it, and run `svc open` again.'
  } catch (error) {
    // A notice would be replaced by the node's refusal a moment later.
    failed(error)
  }
}
