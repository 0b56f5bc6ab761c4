// Lists every capability with its input and output, and generates a form to call it from its schema.
import { lazy } from 'preact/compat'
import { ApiError } from '../api.js'
import { caller } from '../link.js'
import { linkTo, route } from '../route.js'
import { Badge, Button, Empty, Section, Trouble, useLoaded } from '../ui/parts.js'
import { DescriptorView, modeWords } from './descriptor.js'
import { list, nodeId, other, target } from './target.js'
import { NoAnswer, Where } from './where.js'
import type { Descriptor } from './target.js'

const CallView = lazy(async () => (await import('./call.js')).CallView)

export function DiscoveryPage () {
  const who = other.value === null ? caller.value : other.value.token
  const { value, error, again } = useLoaded(list, [target.value.origin, who, nodeId.value])
  const [name] = route.value.parts
  const unread = error instanceof ApiError && error.status === 0 && other.value !== null
  const chosen = value?.find((one) => nameOf(one) === name) ?? null
  return (
    <>
      <Where />
      {unread && <NoAnswer />}
      {error !== null && !unread && <Trouble error={error} again={again} />}
      {error === null && value !== null && (
        <Section title="Capabilities" aside={<Button onClick={again}>Read again</Button>}>
          {value.length === 0 && <Empty title="This node serves no capability. A plugin brings them." />}
          <ul class="rows" aria-label="Capabilities">
            {value.map((one) => <Row key={nameOf(one)} one={one} shown={one === chosen} />)}
          </ul>
        </Section>
      )}
      {error === null && value !== null && name !== undefined && chosen === null && (
        <Empty title={`There is no capability ${name} here.`} />
      )}
      {error === null && chosen !== null && (
        <>
          <DescriptorView descriptor={chosen} />
          <CallView
            key={`${origin} ${nameOf(chosen)} ${chosen.node_id}`} descriptor={chosen} onStale={again}
          />
        </>
      )}
    </>
  )
}

const nameOf = ({ id, version }: Descriptor): string => `${id}@${version}`

function Row ({ one, shown }: { one: Descriptor, shown: boolean }) {
  return (
    <li class="row">
      <div class="grow">
        <p class="row-title">
          <a href={linkTo('discovery', nameOf(one))} aria-current={shown ? 'true' : undefined}>
            {nameOf(one)}
          </a>
          <Badge>{modeWords(one.io_mode)}</Badge>
        </p>
        <p class="hint">{one.description}</p>
      </div>
      <span>{one.title}</span>
    </li>
  )
}
