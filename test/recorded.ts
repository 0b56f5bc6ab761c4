import { readFileSync } from 'node:fs'

/**
 * Recorded answers from real nodes by path, as an operator gets them, with shortened cards. `three-nodes`:
 * all is well. `node-lost`: node3 was killed. `master-lost`: node2 and node3 were killed and came back, then
 * the master was killed; node2 answers. `stopped`: `svc stop svc/guide` just ran. `waiting`: the node of
 * svc/voice-en was just killed. `request-failed`: the runner of svc/voice-en was killed during a request,
 * between two successful ones; all three were traced.
 */
export function recorded (name: string): Record<string, never> {
  return JSON.parse(readFileSync(new URL(`recorded/${name}.json`, import.meta.url), 'utf8')) as
    Record<string, never>
}
