import { readFileSync } from 'node:fs'

/**
 * Answers of real nodes by path, as an operator gets them; the cards in a state are shortened. `three-nodes`:
 * all is well. `node-lost`: node3 was killed. `master-lost`: node2 and node3 had been killed and came back,
 * then the master was killed; reported by node2. `stopped`: `svc stop svc/guide` just ran. `waiting`: the
 * node of svc/voice-en was killed a moment ago. `request-failed`: its runner was killed at work, between two
 * requests that ended well; all were traced.
 */
export function recorded (name: string): Record<string, never> {
  return JSON.parse(readFileSync(new URL(`recorded/${name}.json`, import.meta.url), 'utf8')) as
    Record<string, never>
}
