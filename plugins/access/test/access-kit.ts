import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { prepareHome } from '../../../kernel/boot/home.js'
import { CallerSchemes } from '../../../kernel/http/callers.js'
import { openTokens, type TokenStore } from '../../../kernel/http/tokens.js'
import { fake, manualClock, startPlugin, type Fake, type ManualClock, type Rig, type StartOptions }
  from '../../../kernel/testing/index.js'
import { CallerService, TokenService, type Arrival, type Caller } from '../../../kernel/index.js'
import access from '../index.js'

export const known = new Set(['read', 'invoke', 'cluster:write', 'operator', 'plugin:manage'])
export const OPERATOR: Caller = { id: 'operator', mode: 'direct', authorities: known }

export interface AccessRig extends Rig {
  tokens: TokenStore
  schemes: CallerSchemes
  clock: ManualClock
  /** The caller of a request with this token, or the reason for which it is refused. */
  caller (token: string): Caller | string | undefined
}

/** Starts the plugin with a real token store, which knows the keys that the plugin accepts. */
export async function startAccess (
  t: Parameters<typeof startPlugin>[0], { fakes = [], ...options }: StartOptions = {}
): Promise<AccessRig> {
  const home = mkdtempSync(join(tmpdir(), 'svc-access-'))
  t.teardown!(() => { rmSync(home, { recursive: true, force: true }) })
  prepareHome(home)
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'))
  const schemes = new CallerSchemes()
  const tokens = openTokens({ home, clock, known: () => known, operator: 'none', others: schemes })
  const all: Fake[] = [
    ...fakes, fake(TokenService, tokens),
    fake(CallerService, { register: (scheme) => schemes.register(scheme) })
  ]
  const rig = await startPlugin(t, access, { ...options, clock, fakes: all })
  const caller = (token: string): Caller | string | undefined => {
    const arrival = { authorization: `Bearer ${token}`, device: null } as Arrival
    try {
      return schemes.check(arrival)?.caller
    } catch (error) { return (error as { reason: string }).reason }
  }
  return { ...rig, tokens, schemes, clock, caller }
}
