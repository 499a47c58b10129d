// Asks for the events of the run and draws them: a card and a picture for each client.

import { describe, drawPicture } from './picture.js';

const about = [
  'Sends once. Without an answer it reports a failure.',
  'Sends again until an answer comes. No key.',
  'Sends again until an answer comes. Each attempt has a key of its own.',
  'Sends again with the key of the first attempt. Retrysafe stands in front of the API.',
];
const marks = { '.': 'open', 0: 'missing', 1: 'once', 2: 'double', '?': 'deceived' };
const chosenFirst = 1; // an answer that is lost: the case that all of this is about

const $ = (id) => document.getElementById(id);
const again = $('again');
const cards = [], stories = [];
let latest, chosen = chosenFirst;

again.addEventListener('click', start);
poll();

async function poll() {
  let events;
  try {
    events = await ask('events.json');
  } catch {
    again.disabled = true;
    say('The demo has ended. To see it again: retrysafe demo');
    return;
  }
  if (events.state === 'waiting') await start();
  draw(events);
  setTimeout(poll, events.state === 'done' || events.state === 'failed' ? 1500 : 120);
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.json();
}

async function start() {
  again.disabled = true;
  await fetch('run', { method: 'POST' });
}

function draw(events) {
  latest = events;
  if (cards.length === 0) build(events);
  document.querySelector('[data-run=orders]').textContent = events.orders;
  document.querySelector('[data-run=faulty]').textContent = events.faulty;
  events.clients.forEach((client, i) => drawClient(cards[i], client, events));
  drawStories();
  drawState(events);
  document.body.dataset.run = events.run;
  document.body.dataset.state = events.state; // last: what it says has been drawn
}

function build(events) {
  events.clients.forEach((client, i) => {
    const card = $('client').content.cloneNode(true).firstElementChild;
    card.dataset.client = client.customer;
    card.querySelector('h3').textContent = client.name;
    card.querySelector('.about').textContent = about[i];
    card.querySelector('.marks').classList.toggle('many', events.orders > 300);
    card.querySelector('.marks').append(...Array.from(client.marks, () => document.createElement('i')));
    cards.push(card);
    const story = $('story').content.cloneNode(true).firstElementChild;
    story.dataset.client = client.customer;
    story.querySelector('h3').textContent = client.name;
    stories.push(story);
  });
  $('clients').append(...cards);
  $('stories').append(...stories);
  $('faults').append(...events.operations.map(choice));
}

function choice(operation, i) {
  const label = document.createElement('label'), input = document.createElement('input');
  Object.assign(input, { type: 'radio', name: 'fault', value: i, checked: i === chosen });
  input.addEventListener('change', () => { chosen = i; drawStories(); });
  label.append(input, operation.fault);
  return label;
}

function drawClient(card, client, events) {
  for (const name of ['charges', 'requests', 'missing', 'double', 'deceived']) field(card, name, client[name]);
  field(card, 'orders', events.orders);
  card.querySelectorAll('.marks > i').forEach((mark, i) => {
    const name = `mark ${marks[client.marks[i]]}`;
    if (mark.className !== name) mark.className = name;
  });
  const flaws = client.missing + client.double + client.deceived;
  const over = client.ended === events.orders;
  judge(card, over ? flaws === 0 : flaws > 0 ? false : undefined, over ? verdict(client) : '');
}

function field(card, name, value) {
  const at = card.querySelector(`[data-field=${name}]`), text = String(value);
  if (at.textContent !== text) at.textContent = text;
}

function verdict({ missing, double, deceived }) {
  const parts = [];
  if (double > 0) parts.push(`${double} charged again`);
  if (missing > 0) parts.push(`${missing} missing`);
  if (deceived > 0) parts.push(`${deceived} nobody knows of`);
  return parts.join(', ') || 'Each order charged once';
}

function judge(card, good, text) {
  card.classList.toggle('good', good === true);
  card.classList.toggle('bad', good === false);
  const at = card.querySelector('.verdict');
  if (at.textContent !== text) at.textContent = text;
}

function drawStories() {
  const { run, operations, clients } = latest;
  operations[chosen].stories.forEach((story, i) => {
    const version = `${run} ${chosen} ${story.messages.length}`;
    if (stories[i].dataset.version === version) return;
    stories[i].dataset.version = version;
    const label = `${clients[i].name}: ${story.messages.length} messages about ${operations[chosen].order}, in words below`;
    stories[i].querySelector('.picture').replaceChildren(drawPicture(story, label));
    stories[i].querySelector('ol').replaceChildren(...story.messages.map((m) => {
      const item = document.createElement('li');
      item.textContent = `Attempt ${m.attempt}: ${describe(m)}`;
      return item;
    }));
    judge(stories[i], ...outcome(story.messages));
  });
}

// What became of the order, once the client has said its last word.
function outcome(messages) {
  const last = messages.at(-1);
  if (last?.kind !== 'belief') return [undefined, ''];
  const charges = messages.filter((m) => m.kind === 'charge').length;
  const knows = last.text === 'believes: charged';
  if (charges > 1) return [false, `Charged ${charges} times`];
  if (charges === 0) return [false, 'Not charged'];
  return knows ? [true, 'Charged once'] : [false, 'Charged, and nobody knows'];
}

function drawState({ state, flaw, clients, orders, seed, api }) {
  const ended = clients.reduce((sum, c) => sum + c.ended, 0);
  $('progress').max = clients.length * orders;
  $('progress').value = ended;
  again.disabled = state === 'running' || state === 'waiting';
  say({
    waiting: 'Starting.',
    running: 'Running.',
    done: `Done. The line lost the same messages for all four${seed ? ` (seed ${seed})` : ''}.`,
    failed: `The demo did not show what it must: ${flaw}`,
  }[state]);
  $('proof').hidden = state !== 'done';
  $('commands').textContent = clients.map((c) => `curl '${api}/totals?customer=${c.customer}'   # ${c.name}`).join('\n');
}

function say(text) {
  if ($('status').textContent !== text) $('status').textContent = text; // said once, not at every poll
}
